//! Accepting a job.

use super::{Applying, depend::admit_dependency, license::admit_licenses};
use crate::{
    Attempt, JobId, MemoryMib, Refusal, Shared, State, TimeLimit,
    accounting::Charge,
    command::{Blob, Submit},
    dependency::Dependency,
    job::{ArrayRole, ArrayShape, ExitStatus, HetRole, Hold, Job, JobState, Owner, Reason},
    layout::GPU,
    mirror::{RequestRecord, Table},
    node::Node,
    partition::Partition,
    spec::{JobSpec, MemoryRequest},
};

/// Priority of a job for which nothing says more. Far from both ends, so that `nice` has room.
pub const BASE_PRIORITY: u32 = 1_000_000_000;

/// One component that was taken.
struct Admitted {
    spec: JobSpec,
    time_limit: TimeLimit,
    dependency: Option<Dependency>,
    charge: Option<Charge>,
}

impl Applying<'_> {
    pub(super) fn submit(&mut self, mut submit: Submit) -> Result<JobId, Refusal> {
        if self.version < 4 {
            // It meant nothing then.
            submit.spec.reservation = None;
        }
        if let Some(job) = self.state.request(submit.request) {
            return Ok(job);
        }
        let first = self.admit_component(&submit.owner, &submit.spec)?;
        let blobs = &submit.blobs;
        let missing = |digest| !self.state.has_blob(digest) && !blobs.iter().any(|blob| blob.digest == *digest);
        if missing(&submit.script) || missing(&submit.environment) {
            return Err(Refusal::BlobMissing);
        }
        let further = self.admit_components(&submit)?;
        let id = self.next_job_id()?;
        let size = 1 + further.len() as u32;
        let het = |offset| (size > 1).then_some(HetRole { leader: id, offset, size });
        for _ in 0..size {
            for digest in [submit.script, submit.environment] {
                self.keep_blob(digest, blobs);
            }
        }
        let forget = self.now.plus_s(self.state.settings.request_memory_s);
        self.state.requests.insert(submit.request, RequestRecord { job: id, forget });
        self.state.request_ends.insert((forget, submit.request));
        self.dirty.requests.insert(submit.request);

        let components: Vec<Admitted> = std::iter::once(first).chain(further).collect();
        for (component, offset) in components.into_iter().zip(0..) {
            self.enter_new(JobId(id.0 + offset), component, het(offset), &submit);
        }
        self.state.meta.next_job = JobId(id.0 + size);
        (0..size).for_each(|offset| self.consider_new(JobId(id.0 + offset)));
        Ok(id)
    }

    /// Makes the record of a job that was taken.
    fn enter_new(&mut self, id: JobId, admitted: Admitted, het: Option<HetRole>, submit: &Submit) {
        let Admitted { spec, time_limit, dependency, charge } = admitted;
        let hold = match (spec.hold, spec.priority) {
            (true, _) => Hold::User,
            (false, Some(0)) => Hold::Admin,
            _ => Hold::None,
        };
        let (array, array_shape) = array_of(&spec).unzip();
        let mut job = Job {
            id,
            spec: Shared::new(spec),
            owner: Shared::new(submit.owner.clone()),
            script: submit.script,
            environment: submit.environment,
            submitted: self.now,
            eligible: None,
            state: JobState::Pending,
            reason: Reason::None,
            reason_text: None,
            hold,
            priority: 0,
            attempt: Attempt(0),
            restarts: 0,
            time_limit,
            array,
            array_shape,
            run: None,
            exit: ExitStatus::default(),
            ended: None,
            end_order: None,
            cancelled_by: None,
            signals: Vec::new(),
            launch_faults: 0,
            charge,
            dependency: dependency.map(Shared::new),
            het,
            suspension: None,
        };
        job.refresh_queueing(self.now);
        self.enter(Shared::new(job));
    }

    /// Decides on the components behind the first. None of them may be an array.
    fn admit_components(&self, submit: &Submit) -> Result<Vec<Admitted>, Refusal> {
        let array = submit.spec.array.is_some() || submit.components.iter().any(|spec| spec.array.is_some());
        if !submit.components.is_empty() && array {
            return Err(Refusal::Array);
        }
        let last = self.state.meta.next_job.0.max(self.state.settings.first_job_id);
        if last.saturating_add(submit.components.len() as u32) >= self.state.settings.max_job_id {
            return Err(Refusal::NoJobIds);
        }
        submit.components.iter().map(|spec| self.admit_component(&submit.owner, spec)).collect()
    }

    fn admit_component(&self, owner: &Owner, spec: &JobSpec) -> Result<Admitted, Refusal> {
        let time_limit = self.state.would_accept(owner, spec)?;
        let asked = spec.dependency.as_ref();
        let dependency = asked.map(|asked| admit_dependency(self.state, None, asked)).transpose()?.flatten();
        let mut spec = spec.clone();
        let charge = self.state.charged(owner, &spec)?.map(|charged| {
            (spec.account, spec.qos) = (charged.account, charged.qos);
            charged.charge
        });
        Ok(Admitted { spec, time_limit, dependency, charge })
    }

    /// Counts a use of a blob; writes its bytes at the first.
    fn keep_blob(&mut self, digest: crate::Digest, blobs: &[Blob]) {
        if self.state.use_blob(digest) == 1
            && let Some(blob) = blobs.iter().find(|blob| blob.digest == digest)
        {
            self.mirror.put(Table::Blob, &digest.0, blob.bytes.clone());
        }
    }
}

impl Job {
    /// Sets priority, eligible time and reason after a submission, a hold, a release or a requeue.
    pub(super) fn refresh_queueing(&mut self, now: crate::TimeMs) {
        let nice = i64::from(self.spec.nice);
        let open = match self.spec.priority {
            Some(priority) if priority > 0 => priority,
            _ => (i64::from(BASE_PRIORITY) - nice).clamp(1, i64::from(u32::MAX - 1)) as u32,
        };
        (self.priority, self.reason) = match self.hold {
            Hold::None => (open, Reason::None),
            Hold::User => (0, Reason::HeldUser),
            Hold::Admin => (0, Reason::HeldAdmin),
        };
        self.eligible = match self.hold {
            Hold::None if self.dependency.is_none() => {
                Some(self.spec.begin.filter(|begin| *begin > now).unwrap_or(now))
            }
            _ => None,
        };
    }
}

/// Decides whether a job can be taken, and resolves its time limit.
pub(super) fn admit(state: &State, owner: &Owner, spec: &JobSpec) -> Result<TimeLimit, Refusal> {
    check_array(state, spec)?;
    admit_licenses(state, spec)?;
    admit_features(state, spec)?;
    if let Some(name) = spec.reservation.as_deref() {
        let reservation = state.reservation(name).ok_or(Refusal::Reservation)?;
        if !reservation.admits(owner.uid, spec.account.as_deref()) {
            return Err(Refusal::ReservationAccess);
        }
    }
    let mut limits = Vec::new();
    let mut refusal = None;
    let default = state.default_partition().map(|partition| vec![partition.name.clone()]);
    let names =
        if spec.partitions.is_empty() { default.ok_or(Refusal::NoDefaultPartition)? } else { spec.partitions.clone() };
    for name in &names {
        let partition = state.partition(name).ok_or(Refusal::UnknownPartition)?;
        match admit_to(state, owner, spec, partition) {
            Ok(limit) => limits.push(limit),
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    // A job that names several partitions is taken if one of them takes it.
    limits.into_iter().next().ok_or(refusal.unwrap_or(Refusal::UnknownPartition))
}

fn admit_to(state: &State, owner: &Owner, spec: &JobSpec, partition: &Partition) -> Result<TimeLimit, Refusal> {
    if !partition.takes_submissions() {
        return Err(Refusal::PartitionInactive);
    }
    let root = owner.uid == 0;
    if partition.root_only && !root {
        return Err(Refusal::PartitionAccess);
    }
    if !root && !partition.takes_groups(owner.gid, &owner.groups) {
        return Err(Refusal::PartitionGroup);
    }
    for name in spec.node_list.iter().chain(&spec.exclude) {
        if state.node_named(name).is_none() {
            return Err(Refusal::UnknownNodeName { name: name.clone() });
        }
    }
    let limit = spec.time_limit.or(partition.default_time).unwrap_or(partition.max_time);
    if limit == TimeLimit::Seconds(0) {
        return Err(Refusal::TimeLimit);
    }
    if spec.common_sets().next().is_none() {
        fits_ever(state, spec, partition)?;
        return Ok(limit);
    }
    // One of the lists has to do for all nodes.
    let mut refusal = None;
    for set in spec.common_sets() {
        let features = spec.features.iter().chain(set).cloned().collect();
        let one = JobSpec { features, feature_sets: Vec::new(), features_same: false, ..spec.clone() };
        match fits_ever(state, &one, partition) {
            Ok(()) => return Ok(limit),
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    Err(refusal.unwrap_or(Refusal::NodeConfigUnavailable))
}

/// Refuses what no set of the partition's nodes could run, were they all free. A partition without nodes refuses nothing: its
/// nodes may still come.
fn fits_ever(state: &State, spec: &JobSpec, partition: &Partition) -> Result<(), Refusal> {
    if fits_on_the_first(state, spec, partition) {
        return Ok(());
    }
    let total = state.nodes_of(partition).count() as u32;
    if total == 0 {
        return Ok(());
    }
    let nodes_min = spec.nodes_min();
    if spec.nodes_max.is_some_and(|max| max < nodes_min) {
        return Err(Refusal::NodeCount);
    }
    let known = |request: &crate::spec::GresRequest| {
        state.nodes().any(|node| node.inventory.gres.iter().any(|gres| gres.name == request.name))
    };
    if ![&spec.gres, &spec.gres_total, &spec.gres_per_task, &spec.gres_per_socket].into_iter().flatten().all(known) {
        return Err(Refusal::Gres);
    }
    // A held job is looked at when it is released: until then its request may be changed, or nodes may come.
    if spec.hold {
        return Ok(());
    }
    if nodes_min > total {
        return Err(Refusal::NodeConfigUnavailable);
    }
    let fits =
        |test: &dyn Fn(&Node) -> bool| state.nodes_of(partition).filter(|node| test(node)).count() as u32 >= nodes_min;
    if !fits(&|node| memory_fits(spec, node)) {
        return Err(Refusal::Memory);
    }
    if spec.mincpus.is_some_and(|least| !fits(&|node| node.inventory.cpus >= least)) {
        return Err(Refusal::CpusPerNode);
    }
    if !fits(&|node| spec.layout.fits(&node.inventory)) {
        return Err(Refusal::Layout);
    }
    let mut cpus: Vec<u64> = state
        .nodes_of(partition)
        .filter(|node| usable(spec, node))
        .map(|node| u64::from(node.inventory.cpus))
        .collect();
    cpus.sort_unstable_by(|a, b| b.cmp(a));
    let nodes_most = spec.nodes_max.unwrap_or(u32::MAX) as usize;
    let most: u64 = cpus.iter().take(nodes_most).sum();
    let wanted = cpus_wanted(spec);
    let usable_nodes = || state.nodes_of(partition).filter(|node| usable(spec, node));
    let lacks = |wanted: &crate::spec::GresRequest| {
        let all: u64 =
            usable_nodes().map(|node| u64::from(node.gres_count(&wanted.name, wanted.kind.as_deref()))).sum();
        all < u64::from(wanted.count)
    };
    if spec.gres_total.iter().any(lacks) {
        return Err(Refusal::NodeConfigUnavailable);
    }
    if (cpus.len() as u32) < nodes_min || (most < wanted && !spec.overcommit) {
        return Err(Refusal::NodeConfigUnavailable);
    }
    Ok(())
}

/// True if the first nodes that would do are enough: the usual answer, found without a look at all nodes.
fn fits_on_the_first(state: &State, spec: &JobSpec, partition: &Partition) -> bool {
    let most = spec.nodes_max.unwrap_or(u32::MAX);
    let (wanted, mut cpus, mut count) = (cpus_wanted(spec), 0, 0);
    let known = spec.gres_of_node(1).all(|(_, _, count)| count > 0) && spec.gres_total.is_empty();
    for node in state.nodes_of(partition).filter(|node| usable(spec, node)) {
        count += 1;
        cpus += u64::from(node.inventory.cpus);
        if count > most {
            return false;
        }
        if count >= spec.nodes_min() && (cpus >= wanted || spec.overcommit) {
            return known;
        }
    }
    false
}

fn cpus_wanted(spec: &JobSpec) -> u64 {
    u64::from(spec.tasks()) * u64::from(spec.cpus_per_task())
}

/// Features must be those of some node, and those of the script's node among those of all.
fn admit_features(state: &State, spec: &JobSpec) -> Result<(), Refusal> {
    let known = |feature: &String| state.nodes().any(|node| node.inventory.features.contains(feature));
    // Nodes may still come to a cluster without any.
    let asked = || spec.features.iter().chain(spec.feature_sets.iter().flatten());
    if state.nodes().next().is_some() && !asked().all(known) {
        return Err(Refusal::Feature);
    }
    if !spec.prefer.iter().all(known) {
        return Err(Refusal::Prefer);
    }
    let among = |feature: &String| asked().any(|one| one == feature);
    if spec.batch_features.iter().all(among) { Ok(()) } else { Err(Refusal::BatchFeatures) }
}

fn usable(spec: &JobSpec, node: &Node) -> bool {
    memory_fits(spec, node)
        && node.inventory.cpus >= spec.cpus_on_one_node_min()
        && spec.admits_features(&node.inventory.features)
        && !spec.exclude.contains(&node.name)
        && spec.layout.fits(&node.inventory)
        && spec.mincpus.is_none_or(|least| node.inventory.cpus >= least)
        && spec.gres_of_node(1).all(|(name, kind, count)| node.gres_count(name, kind) >= count)
}

fn memory_fits(spec: &JobSpec, node: &Node) -> bool {
    match spec.memory {
        MemoryRequest::PerNode(memory) => memory <= node.inventory.memory,
        MemoryRequest::PerCpu(MemoryMib(mib)) => {
            mib.saturating_mul(u64::from(spec.cpus_on_one_node_min())) <= node.inventory.memory.0
        }
        MemoryRequest::PerGpu(MemoryMib(mib)) => {
            let gpus = spec.gres_of_node(1).filter(|(name, _, _)| *name == GPU).map(|(_, _, count)| u64::from(count));
            mib.saturating_mul(gpus.sum()) <= node.inventory.memory.0
        }
        MemoryRequest::Default => true,
    }
}

fn check_array(state: &State, spec: &JobSpec) -> Result<(), Refusal> {
    let Some(array) = &spec.array else { return Ok(()) };
    let size = state.settings.max_array_size;
    let fits = array.tasks.last().is_some_and(|last| last < size) && array.tasks.len() <= u64::from(size);
    if fits { Ok(()) } else { Err(Refusal::Array) }
}

fn array_of(spec: &JobSpec) -> Option<(ArrayRole, ArrayShape)> {
    let array = spec.array.as_ref()?;
    let (min, max) = (array.tasks.first()?, array.tasks.last()?);
    let step = match array.tasks.ranges() {
        [range] => range.step,
        _ => 1,
    };
    let shape = ArrayShape { count: array.tasks.len() as u32, min, max, step, max_running: array.max_running };
    Some((ArrayRole::Waiting { tasks: array.tasks.clone() }, shape))
}

impl State {
    /// What [`crate::Command::Submit`] would say of this submission: its time limit, or why it would be refused.
    ///
    /// # Errors
    /// The refusal.
    pub fn would_accept(&self, owner: &Owner, spec: &JobSpec) -> Result<TimeLimit, Refusal> {
        if self.jobs.len() >= self.settings.max_job_count as usize {
            return Err(Refusal::QueueFull);
        }
        if let Some(dependency) = &spec.dependency {
            admit_dependency(self, None, dependency)?;
        }
        // A partition that is not known stands before an account that is not.
        let partitions_known = spec.partitions.iter().all(|name| self.partition(name).is_some());
        let charged = if partitions_known { self.charged(owner, spec)? } else { None };
        let limit = admit(self, owner, spec)?;
        charged.map_or(Ok(()), |charged| self.admit_charge(charged.charge, owner, spec))?;
        Ok(limit)
    }
}
