"""dask-jobqueue: workers as jobs, and work on them."""

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

cluster = SLURMCluster(
    queue="debug",
    cores=1,
    memory="400MB",
    walltime="00:05:00",
    interface="lo",
    local_directory="dask",
    log_directory="dask-logs",
    scheduler_options={"dashboard": False, "dashboard_address": None},
)
with cluster, Client(cluster) as client:
    cluster.scale(jobs=2)
    client.wait_for_workers(2, timeout=60)
    print("squares", sum(client.gather(client.map(lambda n: n * n, range(10)))))
    print("workers", len(client.scheduler_info()["workers"]))
