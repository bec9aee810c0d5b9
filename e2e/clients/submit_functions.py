"""submitit: functions as jobs and as an array, results and errors brought back."""

import submitit


def add(a, b):
    return a + b


def fail():
    raise ValueError("as meant")


executor = submitit.SlurmExecutor(folder="submitit/%j")
executor.update_parameters(time=5, partition="debug", job_name="sum")
job = executor.submit(add, 2, 3)
array = executor.map_array(add, [1, 2, 3], [10, 20, 30])
bad = executor.submit(fail)
print("sum", job.result())
print("sums", [one.result() for one in array])
print("error", "as meant" in str(bad.exception()))
print("states", sorted({one.watcher.get_state(one.job_id, mode="force") for one in [job, *array]}))
