//! What can be limited: a rule, for some of them a resource, and a number.

use minicbor::{Decode, Encode};

/// A resource that is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Tres {
    /// CPUs.
    #[n(0)]
    Cpu,
    /// Memory, in MiB.
    #[n(1)]
    Memory,
    /// Energy, in joules.
    #[n(2)]
    Energy,
    /// Nodes.
    #[n(3)]
    Node,
    /// The weighted sum that is billed.
    #[n(4)]
    Billing,
    /// Disk space, in MiB.
    #[n(5)]
    Disk,
    /// Virtual memory, in MiB.
    #[n(6)]
    Vmem,
    /// Memory pages.
    #[n(7)]
    Pages,
    /// A generic resource.
    #[n(8)]
    Gres {
        /// Such as `gpu`.
        #[n(0)]
        name: String,
        /// Such as `a100`; every type if not given.
        #[n(1)]
        kind: Option<String>,
    },
    /// A licence.
    #[n(9)]
    License(#[n(0)] String),
}

/// The sort of a resource, as reasons tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum TresClass {
    /// CPUs.
    #[n(0)]
    Cpu,
    /// Memory.
    #[n(1)]
    Memory,
    /// Energy.
    #[n(2)]
    Energy,
    /// Nodes.
    #[n(3)]
    Node,
    /// Billing.
    #[n(4)]
    Billing,
    /// Generic resources.
    #[n(5)]
    Gres,
    /// Licences.
    #[n(6)]
    License,
    /// Anything else.
    #[n(7)]
    Other,
}

impl Tres {
    /// Its sort.
    pub fn class(&self) -> TresClass {
        match self {
            Self::Cpu => TresClass::Cpu,
            Self::Memory => TresClass::Memory,
            Self::Energy => TresClass::Energy,
            Self::Node => TresClass::Node,
            Self::Billing => TresClass::Billing,
            Self::Gres { .. } => TresClass::Gres,
            Self::License(_) => TresClass::License,
            Self::Disk | Self::Vmem | Self::Pages => TresClass::Other,
        }
    }
}

/// What is limited. Those of all jobs together begin with `Grp`; the unit stands last where it is a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Rule {
    /// Running jobs of all together.
    #[n(0)]
    GrpJobs,
    /// Jobs that gain age, of all together.
    #[n(1)]
    GrpJobsAccrue,
    /// Jobs that have not ended, of all together.
    #[n(2)]
    GrpSubmit,
    /// Time used by all together, in minutes.
    #[n(3)]
    GrpWallMin,
    /// A resource held by all together.
    #[n(4)]
    GrpTres,
    /// A resource used over time by all together, in minutes of it.
    #[n(5)]
    GrpTresMin,
    /// What running jobs of all together may still use, in minutes of the resource.
    #[n(6)]
    GrpTresRunMin,
    /// Running jobs of one association.
    #[n(7)]
    MaxJobs,
    /// Jobs of one association that gain age.
    #[n(8)]
    MaxJobsAccrue,
    /// Jobs of one association that have not ended.
    #[n(9)]
    MaxSubmit,
    /// Limit of a job's time, in minutes.
    #[n(10)]
    MaxWallMin,
    /// A resource of one job.
    #[n(11)]
    MaxTres,
    /// A resource of one job on each node.
    #[n(12)]
    MaxTresPerNode,
    /// A resource times the limit of one job, in minutes of it.
    #[n(13)]
    MaxTresMin,
    /// Smallest request of a job.
    #[n(14)]
    MinTres,
    /// Priority that a job needs to be looked at.
    #[n(15)]
    MinPriority,
    /// Running jobs of each user.
    #[n(16)]
    MaxJobsPerUser,
    /// Jobs of each user that gain age.
    #[n(17)]
    MaxJobsAccruePerUser,
    /// Jobs of each user that have not ended.
    #[n(18)]
    MaxSubmitPerUser,
    /// A resource held by each user.
    #[n(19)]
    MaxTresPerUser,
    /// What running jobs of each user may still use, in minutes of the resource.
    #[n(20)]
    MaxTresRunMinPerUser,
    /// Running jobs of each account.
    #[n(21)]
    MaxJobsPerAccount,
    /// Jobs of each account that gain age.
    #[n(22)]
    MaxJobsAccruePerAccount,
    /// Jobs of each account that have not ended.
    #[n(23)]
    MaxSubmitPerAccount,
    /// A resource held by each account.
    #[n(24)]
    MaxTresPerAccount,
    /// What running jobs of each account may still use, in minutes of the resource.
    #[n(25)]
    MaxTresRunMinPerAccount,
}

impl Rule {
    /// True for rules that hold for one resource each.
    pub fn of_tres(self) -> bool {
        use Rule::*;
        matches!(
            self,
            GrpTres
                | GrpTresMin
                | GrpTresRunMin
                | MaxTres
                | MaxTresPerNode
                | MaxTresMin
                | MinTres
                | MaxTresPerUser
                | MaxTresRunMinPerUser
                | MaxTresPerAccount
                | MaxTresRunMinPerAccount
        )
    }

    /// True for rules of an association that those below it take over where they say nothing of their own.
    pub fn is_inherited(self) -> bool {
        use Rule::*;
        matches!(
            self,
            MaxJobs | MaxJobsAccrue | MaxSubmit | MaxWallMin | MaxTres | MaxTresPerNode | MaxTresMin | MinPriority
        )
    }
}

/// A rule, and its resource where it has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Limit {
    /// The rule.
    #[n(0)]
    pub rule: Rule,
    /// The resource.
    #[n(1)]
    pub tres: Option<Tres>,
}

/// A limit to set or to take away. One without a resource takes all of its rule away.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LimitEdit {
    /// Which.
    #[n(0)]
    pub limit: Limit,
    /// To what; away if not given.
    #[n(1)]
    pub value: Option<u64>,
}

/// Limits that are set, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Limits(#[n(0)] Vec<(Limit, u64)>);

impl Limits {
    /// True if nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of a rule without a resource.
    pub fn plain(&self, rule: Rule) -> Option<u64> {
        self.of(rule).next().map(|(_, value)| value)
    }

    /// All limits of a rule, in the order of resources.
    pub fn of(&self, rule: Rule) -> impl Iterator<Item = (Option<&Tres>, u64)> {
        let from = self.0.partition_point(|(limit, _)| limit.rule < rule);
        self.0[from..]
            .iter()
            .take_while(move |(limit, _)| limit.rule == rule)
            .map(|(limit, value)| (limit.tres.as_ref(), *value))
    }

    /// All limits.
    pub fn iter(&self) -> impl Iterator<Item = (&Limit, u64)> {
        self.0.iter().map(|(limit, value)| (limit, *value))
    }

    /// Sets or takes away.
    pub fn edit(&mut self, edits: &[LimitEdit]) {
        for LimitEdit { limit, value } in edits {
            let place = self.0.binary_search_by(|(have, _)| have.cmp(limit));
            match (place, value) {
                (Ok(at), Some(value)) => self.0[at].1 = *value,
                (Err(at), Some(value)) => self.0.insert(at, (limit.clone(), *value)),
                (_, None) if limit.tres.is_none() => self.0.retain(|(have, _)| have.rule != limit.rule),
                (Ok(at), None) => {
                    self.0.remove(at);
                }
                (Err(_), None) => {}
            }
        }
    }

    /// Takes over what `above` says of inherited rules and this does not.
    pub fn inherit(&mut self, above: &Self) {
        for (limit, value) in above.0.iter().filter(|(limit, _)| limit.rule.is_inherited()) {
            if let Err(at) = self.0.binary_search_by(|(have, _)| have.cmp(limit)) {
                self.0.insert(at, (limit.clone(), *value));
            }
        }
    }
}
