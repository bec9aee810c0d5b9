//! Every placement of a plan is taken, whatever the cluster and the queue; and what starts early delays nobody.

mod build;

use build::*;
use gpun_core::{
    Command, MemoryMib, Outcome, TimeLimit,
    command::NodeChange,
    job::Reason,
    node::Inventory,
    partition::Partition,
    spec::{GresRequest, JobSpec, MemoryRequest},
};
use gpun_sched::PlanLimits;
use proptest::prelude::*;

fn inventory() -> impl Strategy<Value = Inventory> {
    (1..9_u32, 0..3_u32, 0..3_u32, 0..3_u32, any::<bool>()).prop_map(|(cpus, a, b, weight, feature)| Inventory {
        weight,
        features: if feature { vec!["x".to_owned()] } else { Vec::new() },
        ..gpus(cpus, &[("a", a), ("b", b)])
    })
}

fn gres() -> impl Strategy<Value = Vec<GresRequest>> {
    let one = (prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))], 1..3_u32).prop_map(|(kind, count)| {
        GresRequest { name: "gpu".to_owned(), kind: kind.map(str::to_owned), count, bare: false }
    });
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(one, 1..3)]
}

fn memory() -> impl Strategy<Value = MemoryRequest> {
    prop_oneof![
        4 => Just(MemoryRequest::Default),
        1 => (0..6_u64).prop_map(|mib| MemoryRequest::PerNode(MemoryMib(mib))),
        1 => (0..3_u64).prop_map(|mib| MemoryRequest::PerCpu(MemoryMib(mib))),
    ]
}

fn optional<T: Clone + std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![3 => Just(None), 1 => some.prop_map(Some)]
}

fn names(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    let some = prop::sample::subsequence(of, 0..=of.len().min(2));
    prop_oneof![4 => Just(Vec::new()), 1 => some.prop_map(|names| names.into_iter().map(str::to_owned).collect())]
}

const NODES: &[&str] = &["n1", "n2", "n3", "n10", "n11"];

prop_compose! {
    fn job()(
        sizes in (optional(1..4_u32), optional(1..4_u32), optional(1..12_u32), optional(1..4_u32), optional(1..4_u32)),
        shape in (memory(), gres(), names(&["x"]), names(NODES), names(NODES)),
        flags in (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        time in prop_oneof![5 => (1..500_u64).prop_map(TimeLimit::Seconds), 1 => Just(TimeLimit::Infinite)],
        partitions in names(&["all", "half"]),
        priority in 1..4_u32,
        tasks in optional((1..6_u32, optional(1..3_u32))),
    ) -> JobSpec {
        let (nodes_min, more, ntasks, ntasks_per_node, cpus_per_task) = sizes;
        let spec = JobSpec {
            partitions,
            time_limit: Some(time),
            nodes_min,
            nodes_max: more.map(|more| nodes_min.unwrap_or(1) + more - 1),
            ntasks,
            ntasks_per_node,
            cpus_per_task,
            memory: shape.0,
            gres: shape.1,
            features: shape.2,
            node_list: shape.3,
            exclude: shape.4,
            exclusive: flags.0,
            contiguous: flags.1,
            overcommit: flags.2,
            priority: Some(priority),
            ..JobSpec::default()
        };
        match tasks {
            Some((count, max_running)) => array(spec, 0, count, max_running),
            None => spec,
        }
    }
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let tier = || optional(1..3_u32);
    (prop::collection::vec(inventory(), NODES.len()), tier(), tier()).prop_map(|(inventories, a, b)| {
        let all = Partition { priority_tier: a, ..Partition::all_nodes("all") };
        let half = Partition { priority_tier: b, max_nodes: Some(3), ..partition("half", &["n1", "n10", "n3"]) };
        Cluster::new(NODES.iter().copied().zip(inventories).collect(), vec![all, half])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_placement_is_taken(
        mut cluster in cluster(),
        waves in prop::collection::vec((prop::collection::vec(job(), 1..12), 0..200_u64, optional(0..NODES.len())), 1..4),
        reservations_max in 1..4_usize,
        placements_max in 1..20_usize,
    ) {
        let limits = PlanLimits { placements_max, reservations_max, ..PlanLimits::default() };
        for (jobs, seconds, drained) in waves {
            for job in jobs {
                // What the cluster can't take is refused; that is another test.
                let _ = cluster.try_submit(job);
            }
            if let Some(node) = drained {
                cluster.node(NODES[node], NodeChange::Drain { reason: String::new() });
            }
            cluster.pass(seconds);
            let plan = gpun_sched::plan(&cluster.state, cluster.now, &limits);
            prop_assert!(plan == gpun_sched::plan(&cluster.state, cluster.now, &limits), "the same state gives the same plan");
            for placement in &plan.placements {
                let outcome = cluster.apply(Command::Place(placement.clone()));
                prop_assert_eq!(outcome, Outcome::Done { count: 1 }, "{:?}", placement);
            }
            if plan.unfinished {
                continue;
            }
            let again = gpun_sched::plan(&cluster.state, cluster.now, &limits);
            for (job, before) in &plan.verdicts {
                let Some(waiting) = cluster.state.job(*job) else { continue };
                let (Some(start), Reason::Resources) = (before.start_estimate, before.reason) else { continue };
                let Some(after) = again.verdict(&cluster.state, waiting) else {
                    prop_assert!(waiting.array.is_some(), "job {} waits and starts in one plan", job);
                    continue;
                };
                // With several waiting jobs the earlier ones may move, and with them the later ones.
                if plan.blocked.len() == 1 && again.blocked.len() == 1 && reservations_max == 1 {
                    prop_assert!(after.start_estimate.is_some_and(|after| after <= start), "job {job}: {before:?}, then {after:?}");
                }
            }
        }
    }
}
