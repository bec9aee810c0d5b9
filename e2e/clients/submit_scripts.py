"""simple-slurm: a job, and one that depends on it."""

import subprocess

from simple_slurm import Slurm

first = Slurm(job_name="first", output=f"first_{Slurm.JOB_ID}.out", time="0:05:00", partition="debug")
number = first.sbatch("echo first of $SLURM_JOB_ID")
second = Slurm(job_name="second", output="second.out", dependency={"afterok": number}, partition="debug")
after = second.sbatch(f"cat first_{number}.out")
subprocess.run(["sbatch", "--wait", f"--dependency=afterany:{after}", "-p", "debug", "--wrap", "true"], check=True)
print("second", open("second.out").read().strip() == f"first of {number}")
