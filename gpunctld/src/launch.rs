//! All that a node needs to start one attempt: paths expanded, the environment complete.

use gpun_compat::{array, pattern};
use gpun_core::{
    JobId, State,
    job::{Job, NodeAlloc, Run},
    mirror::Table,
    node::Node,
    spec::OpenMode,
};
use gpun_proto::pb;
use gpun_raft_store::{MirrorError, MirrorRead};
use thiserror::Error;

use crate::environment::{Facts, Place, environment};

/// A mount that was not understood.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The job is not placed any more.
    #[error("job {0} is not placed")]
    NotPlaced(JobId),
    /// The script or the environment can't be read.
    #[error("the script or environment of job {job} can't be read")]
    Blob {
        /// The job.
        job: JobId,
        /// The cause.
        #[source]
        source: MirrorError,
    },
    /// The script or the environment is not there: a fault of this program.
    #[error("the script or environment of job {0} is missing from the store")]
    BlobMissing(JobId),
}

/// The launch of a job's current attempt on its first node.
pub fn launch(state: &State, id: JobId, blobs: &dyn MirrorRead, cluster_dir: &str) -> Result<pb::Launch, LaunchError> {
    let job = state.job(id).ok_or(LaunchError::NotPlaced(id))?;
    let run = job.run.as_ref().ok_or(LaunchError::NotPlaced(id))?;
    let places = places_of(state, run);
    let (node, alloc) = *places.first().ok_or(LaunchError::NotPlaced(id))?;
    let blob = |digest: gpun_core::Digest| {
        let found = blobs.get(Table::Blob as u8, &digest.0).map_err(|source| LaunchError::Blob { job: id, source })?;
        found.ok_or(LaunchError::BlobMissing(id))
    };
    let components = state.components_of(id).filter_map(|job| Some((&**job, job.run.as_ref()?)));
    let components: Vec<_> = components.map(|(job, run)| (job, run, places_of(state, run))).collect();
    let facts_of = |job, run, places, components| facts(state, job, run, places, components, cluster_dir);
    let components: Vec<Facts<'_>> =
        components.iter().map(|(job, run, places)| facts_of(*job, *run, places.as_slice(), &[])).collect();
    let facts = facts_of(job, run, places.as_slice(), components.as_slice());
    let spec = &job.spec;
    let paths = paths(job, node);
    let own = [spec.work_dir.as_str(), folder(&paths.std_out), folder(&paths.std_err)];
    let mounts = mounts(&spec.container_mounts, cluster_dir, &own);
    Ok(pb::Launch {
        job_id: id.0,
        attempt: job.attempt.0,
        user: Some(pb::User {
            uid: job.owner.uid,
            gid: job.owner.gid,
            groups: job.owner.groups.clone(),
            name: job.owner.user.clone(),
            home: job.owner.home.clone().into_bytes(),
        }),
        work_dir: spec.work_dir.clone().into_bytes(),
        args: spec.args.iter().map(|arg| arg.clone().into_bytes()).collect(),
        environment: environment(&facts, &blob(job.environment)?),
        std_in: paths.std_in.into_bytes(),
        std_out: paths.std_out.into_bytes(),
        std_err: paths.std_err.into_bytes(),
        append: spec.open_mode == Some(OpenMode::Append),
        umask: spec.umask.unwrap_or(0o022),
        rlimits: spec.rlimits.iter().map(|(resource, soft)| pb::Rlimit { resource: *resource, soft: *soft }).collect(),
        limits: Some(limits(node, alloc)),
        image: spec.container_image.clone().map(|path| pb::Image { path, work_dir: spec.container_workdir.clone() }),
        mounts,
        script: blob(job.script)?,
        notices: Some(notices(job, node)),
        warn: spec.warn.map(|warn| pb::Warn {
            signal: warn.signal,
            before_s: warn.before_s,
            batch_only: warn.batch_only,
        }),
    })
}

/// The variables of a job's own, as its script has them, without those of whoever submitted it.
pub fn job_environment(state: &State, id: JobId, cluster_dir: &str) -> Vec<Vec<u8>> {
    let Some((job, run)) = state.job(id).and_then(|job| Some((&**job, job.run.as_ref()?))) else { return Vec::new() };
    let places = places_of(state, run);
    environment(&facts(state, job, run, places.as_slice(), &[], cluster_dir), b"")
}

fn places_of<'a>(state: &'a State, run: &'a Run) -> Vec<Place<'a>> {
    run.allocs.iter().filter_map(|alloc| Some((&**state.node(alloc.node)?, alloc))).collect()
}

fn facts<'a>(
    state: &'a State,
    job: &'a Job,
    run: &'a Run,
    places: &'a [Place<'a>],
    components: &'a [Facts<'a>],
    cluster_dir: &'a str,
) -> Facts<'a> {
    let partition = state.partition(&run.partition).map(|partition| &**partition);
    Facts { job, run, places, partition, settings: state.settings(), components, cluster_dir }
}

fn limits(node: &Node, alloc: &NodeAlloc) -> pb::Limits {
    let devices = alloc.gres.iter().flat_map(|gres| {
        let files = node.inventory.gres.iter().filter(|have| have.name == gres.name).flat_map(|have| {
            // A kind without files takes as many positions as it counts.
            (0..have.count as usize).map(|at| have.files.get(at))
        });
        let files: Vec<Option<&String>> = files.collect();
        gres.indexes
            .iter()
            .filter_map(|index| files.get(index as usize).copied().flatten().cloned())
            .collect::<Vec<_>>()
    });
    pb::Limits {
        cpus: alloc.cpus.len() as u32,
        cpu_list: array::show(&alloc.cpus),
        memory_mib: alloc.memory.0,
        devices: devices.collect(),
    }
}

/// Files of the script's streams, absolute.
struct Paths {
    std_in: String,
    std_out: String,
    std_err: String,
}

fn paths(job: &Job, node: &Node) -> Paths {
    let spec = &job.spec;
    let values = pattern::Values {
        job: job.id.0,
        array_job: job.array_id().map(|id| id.0),
        array_task: job.array_task(),
        name: &spec.name,
        user: &job.owner.user,
        host: &node.name,
        node: 0,
        task: 0,
        step: "batch",
    };
    let absolute = |pattern: &str| {
        let path = pattern::expand(pattern, &values);
        if path.starts_with('/') { path } else { format!("{}/{path}", spec.work_dir.trim_end_matches('/')) }
    };
    let default = if job.array.is_some() { pattern::DEFAULT_ARRAY } else { pattern::DEFAULT };
    let std_out = absolute(spec.std_out.as_deref().unwrap_or(default));
    Paths {
        std_in: spec.std_in.as_deref().map_or_else(|| "/dev/null".to_owned(), absolute),
        std_err: spec.std_err.as_deref().map_or_else(|| std_out.clone(), absolute),
        std_out,
    }
}

/// The folder of a file.
fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| if folder.is_empty() { "/" } else { folder })
}

/// `SRC:DST[:ro|rw]`, and the cluster's folder so that commands inside the job reach the controller. Folders of the job's own
/// that lie inside it come after it: it would hide them, and it can't be written to.
fn mounts(texts: &[String], cluster_dir: &str, own: &[&str]) -> Vec<pb::Mount> {
    let cluster = pb::Mount {
        source: cluster_dir.as_bytes().to_vec(),
        target: cluster_dir.as_bytes().to_vec(),
        read_only: true,
        optional: true,
    };
    let inside = |path: &&&str| path.strip_prefix(cluster_dir).is_some_and(|rest| rest.starts_with('/'));
    let mut own: Vec<&str> = own.iter().filter(inside).copied().collect();
    own.sort_unstable();
    own.dedup();
    let own = own.into_iter().map(|path| pb::Mount {
        source: path.as_bytes().to_vec(),
        target: path.as_bytes().to_vec(),
        read_only: false,
        optional: true,
    });
    let asked = texts.iter().map(|text| {
        let mut parts = text.split(':');
        let source = parts.next().unwrap_or_default();
        let target = parts.next().filter(|target| !target.is_empty()).unwrap_or(source);
        let read_only = parts.next().is_some_and(|flags| flags.split(['+', ',']).any(|flag| flag == "ro"));
        pb::Mount { source: source.into(), target: target.into(), read_only, optional: false }
    });
    std::iter::once(cluster).chain(own).chain(asked).collect()
}

/// Lines for the job's standard error, as Slurm words them; the node fills in `{time}`.
fn notices(job: &Job, node: &Node) -> pb::Notices {
    let line =
        |why: &str| format!("slurmstepd: error: *** JOB {} ON {} CANCELLED AT {{time}}{why} ***", job.id, node.name);
    pb::Notices {
        cancelled: line(""),
        time_limit: line(" DUE TO TIME LIMIT"),
        out_of_memory: format!(
            "slurmstepd: error: Detected 1 oom_kill event in StepId={}.batch. Some of the step tasks have been OOM Killed.",
            job.id
        ),
        requeued: line(" DUE TO JOB REQUEUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_inside_the_clusters_are_not_hidden_by_it() {
        let own = ["/c/work", "/c/work", "/home/a", "/c", "/cluster/x"];
        let shown: Vec<String> = mounts(&["/data:/mnt:ro".to_owned()], "/c", &own)
            .iter()
            .map(|mount| {
                let way = if mount.read_only { "ro" } else { "rw" };
                format!("{} {} {way}", String::from_utf8_lossy(&mount.source), String::from_utf8_lossy(&mount.target))
            })
            .collect();
        assert_eq!(shown, ["/c /c ro", "/c/work /c/work rw", "/data /mnt ro"]);
    }

    #[test]
    fn the_folder_of_a_file() {
        for (path, right) in [("/a/b/c", "/a/b"), ("/a", "/"), ("a", "/")] {
            assert_eq!(folder(path), right, "{path}");
        }
    }
}
