"""parsl: a block of workers as a job, apps on it."""

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def double(n):
    return 2 * n


@parsl.bash_app
def hello(stdout):
    return "echo hello from job $SLURM_JOB_NAME"


provider = SlurmProvider(
    partition="debug",
    init_blocks=1,
    max_blocks=1,
    cores_per_node=1,
    mem_per_node=1,
    walltime="00:05:00",
    exclusive=False,
    launcher=SrunLauncher(),
)
executor = HighThroughputExecutor(label="slurm", address="127.0.0.1", max_workers_per_node=1, provider=provider)
with parsl.load(Config(executors=[executor], run_dir="parsl", strategy="none", usage_tracking=0)):
    print("doubled", [one.result() for one in [double(n) for n in range(4)]])
    hello(stdout="hello.txt").result()
print("hello", open("hello.txt").read().startswith("hello from job parsl"))
