//! The columns that `format=` knows, and those that are shown where it is not given.

use gpun_core::accounting::Rule;

use super::table::Column;

/// What a column of accounts, users and associations shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the column of its name")]
pub enum Key {
    Account,
    Description,
    Organization,
    Coordinators,
    Cluster,
    ControlHost,
    ControlPort,
    Rpc,
    ParentName,
    User,
    Partition,
    Share,
    Priority,
    /// A rule, with all its resources.
    Limit(Rule),
    /// CPUs of a rule.
    Cpus(Rule),
    /// Memory of a rule.
    Memory(Rule),
    /// Nodes of a rule.
    Nodes(Rule),
    Qos,
    DefaultQos,
    DefaultAccount,
    DefaultWckey,
    Admin,
    Id,
    Lineage,
    /// Always empty here.
    Nothing,
}

const fn column(name: &'static str, least: usize, head: &'static str, width: i32, key: Key) -> Column<Key> {
    Column { name, least, head, width, key }
}

/// Columns of accounts, users, associations and the cluster.
pub const RECORDS: &[Column<Key>] = &[
    column("Account", 3, "Account", 10, Key::Account),
    column("AdminLevel", 2, "Admin", 9, Key::Admin),
    column("Cluster", 2, "Cluster", 10, Key::Cluster),
    column("ControlHost", 8, "ControlHost", 15, Key::ControlHost),
    column("ControlPort", 8, "ControlPort", 12, Key::ControlPort),
    column("Coordinators", 2, "Coord Accounts", 20, Key::Coordinators),
    column("DefaultAccount", 8, "Def Acct", 10, Key::DefaultAccount),
    column("DefaultQOS", 8, "Def QOS", 9, Key::DefaultQos),
    column("DefaultWCKey", 8, "Def WCKey", 10, Key::DefaultWckey),
    column("Description", 3, "Descr", 20, Key::Description),
    column("Fairshare", 1, "Share", 9, Key::Share),
    column("GrpCPUMins", 8, "GrpCPUMins", 11, Key::Cpus(Rule::GrpTresMin)),
    column("GrpCPURunMins", 7, "GrpCPURunMins", 13, Key::Cpus(Rule::GrpTresRunMin)),
    column("GrpCPUs", 4, "GrpCPUs", 8, Key::Cpus(Rule::GrpTres)),
    column("GrpJobs", 4, "GrpJobs", 7, Key::Limit(Rule::GrpJobs)),
    column("GrpJobsAccrue", 8, "GrpJobsAccrue", 13, Key::Limit(Rule::GrpJobsAccrue)),
    column("GrpMemory", 4, "GrpMem", 7, Key::Memory(Rule::GrpTres)),
    column("GrpNodes", 4, "GrpNodes", 8, Key::Nodes(Rule::GrpTres)),
    column("GrpSubmitJobs", 4, "GrpSubmit", 9, Key::Limit(Rule::GrpSubmit)),
    column("GrpTRES", 4, "GrpTRES", 13, Key::Limit(Rule::GrpTres)),
    column("GrpTRESMins", 8, "GrpTRESMins", 13, Key::Limit(Rule::GrpTresMin)),
    column("GrpTRESRunMins", 8, "GrpTRESRunMins", 13, Key::Limit(Rule::GrpTresRunMin)),
    column("GrpWall", 4, "GrpWall", 11, Key::Limit(Rule::GrpWallMin)),
    column("ID", 2, "ID", 6, Key::Id),
    column("Lineage", 3, "Lineage", -20, Key::Lineage),
    column("MaxCPUMinsPerJob", 7, "MaxCPUMins", 11, Key::Cpus(Rule::MaxTresMin)),
    column("MaxCPUsPerJob", 7, "MaxCPUs", 8, Key::Cpus(Rule::MaxTres)),
    column("MaxJobs", 4, "MaxJobs", 7, Key::Limit(Rule::MaxJobs)),
    column("MaxJobsAccrue", 8, "MaxJobsAccrue", 13, Key::Limit(Rule::MaxJobsAccrue)),
    column("MaxNodesPerJob", 4, "MaxNodes", 8, Key::Nodes(Rule::MaxTres)),
    column("MaxSubmitJobs", 4, "MaxSubmit", 9, Key::Limit(Rule::MaxSubmit)),
    column("MaxTRESPerJob", 7, "MaxTRES", 13, Key::Limit(Rule::MaxTres)),
    column("MaxTRESPerNode", 11, "MaxTRESPerNode", 14, Key::Limit(Rule::MaxTresPerNode)),
    column("MaxTRESMinsPerJob", 8, "MaxTRESMins", 13, Key::Limit(Rule::MaxTresMin)),
    column("MaxWallDurationPerJob", 4, "MaxWall", 11, Key::Limit(Rule::MaxWallMin)),
    column("MinPrioThresh", 4, "MinPrioThres", 12, Key::Limit(Rule::MinPriority)),
    column("Name", 1, "Name", 10, Key::User),
    column("Organization", 1, "Org", 20, Key::Organization),
    column("ParentID", 7, "Par ID", 6, Key::Nothing),
    column("ParentName", 7, "ParentName", 10, Key::ParentName),
    column("Partition", 4, "Partition", 10, Key::Partition),
    column("Priority", 3, "Priority", 10, Key::Priority),
    column("QOS", 1, "QOS", 20, Key::Qos),
    column("QosRaw", 4, "QOS_RAW", 10, Key::Nothing),
    column("RPC", 1, "RPC", 5, Key::Rpc),
    column("Shares", 1, "Share", 9, Key::Share),
    column("User", 1, "User", 10, Key::User),
    column("WCKeys", 2, "WCKeys", 20, Key::Nothing),
];

/// Of `show association`.
pub const ASSOCIATION: &str = "cluster,account,user,partition,share,priority,grpjobs,grptres,grpsubmit,grpwall,grptresmins,\
    maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,qos,defaultqos,grptresrunmins";
/// Of `show association` without what accounts above say.
pub const TREE_ACCOUNT_WIDTH: i32 = -20;
/// Of `show account`.
pub const ACCOUNT: &str = "account,descr,org";
/// What `withassoc` adds to it.
pub const ACCOUNT_ASSOCIATIONS: &str = "cluster,parentname,user,share,priority,grpjobs,grpnodes,grpcpus,grpmem,grpsubmit,\
    grpwall,grpcpumins,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,maxcpumins,qos,defaultqos";
/// Of `show user`.
pub const USER: &str = "user,defaultaccount,adminlevel";
/// What `withassoc` adds to it.
pub const USER_ASSOCIATIONS: &str = "cluster,account,partition,share,priority,maxjobs,maxnodes,maxcpus,maxsubmit,maxwall,\
    maxcpumins,qos,defaultqos";
/// Of `show cluster`.
pub const CLUSTER: &str = "cluster,controlhost,controlport,rpc,share,grpjobs,grptres,grpsubmit,maxjobs,maxtres,maxsubmit,\
    maxwall,qos,defaultqos";

/// What a column of qualities of service shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the column of its name")]
pub enum QosKey {
    Name,
    Id,
    Description,
    Priority,
    Grace,
    Preempt,
    PreemptMode,
    PreemptExempt,
    Flags,
    UsageFactor,
    UsageThreshold,
    /// A rule, with all its resources.
    Limit(Rule),
    /// CPUs of a rule.
    Cpus(Rule),
    /// Nodes of a rule.
    Nodes(Rule),
}

const fn qos(name: &'static str, least: usize, head: &'static str, width: i32, key: QosKey) -> Column<QosKey> {
    Column { name, least, head, width, key }
}

/// Columns of qualities of service.
pub const QOS: &[Column<QosKey>] = &[
    qos("Name", 1, "Name", 10, QosKey::Name),
    qos("Description", 1, "Descr", 20, QosKey::Description),
    qos("Flags", 2, "Flags", 20, QosKey::Flags),
    qos("GraceTime", 3, "GraceTime", 10, QosKey::Grace),
    qos("GrpCPUMins", 8, "GrpCPUMins", 11, QosKey::Cpus(Rule::GrpTresMin)),
    qos("GrpCPURunMins", 7, "GrpCPURunMins", 13, QosKey::Cpus(Rule::GrpTresRunMin)),
    qos("GrpCPUs", 4, "GrpCPUs", 8, QosKey::Cpus(Rule::GrpTres)),
    qos("GrpJobs", 4, "GrpJobs", 7, QosKey::Limit(Rule::GrpJobs)),
    qos("GrpJobsAccrue", 8, "GrpJobsAccrue", 13, QosKey::Limit(Rule::GrpJobsAccrue)),
    qos("GrpNodes", 4, "GrpNodes", 8, QosKey::Nodes(Rule::GrpTres)),
    qos("GrpSubmitJobs", 4, "GrpSubmit", 9, QosKey::Limit(Rule::GrpSubmit)),
    qos("GrpTRES", 4, "GrpTRES", 13, QosKey::Limit(Rule::GrpTres)),
    qos("GrpTRESMins", 8, "GrpTRESMins", 13, QosKey::Limit(Rule::GrpTresMin)),
    qos("GrpTRESRunMins", 8, "GrpTRESRunMins", 13, QosKey::Limit(Rule::GrpTresRunMin)),
    qos("GrpWall", 4, "GrpWall", 11, QosKey::Limit(Rule::GrpWallMin)),
    qos("ID", 2, "ID", 6, QosKey::Id),
    qos("MaxCPUMinsPerJob", 7, "MaxCPUMins", 11, QosKey::Cpus(Rule::MaxTresMin)),
    qos("MaxCPUsPerJob", 7, "MaxCPUs", 8, QosKey::Cpus(Rule::MaxTres)),
    qos("MaxCPUsPerUser", 11, "MaxCPUsPU", 9, QosKey::Cpus(Rule::MaxTresPerUser)),
    qos("MaxJobsPU", 4, "MaxJobsPU", 9, QosKey::Limit(Rule::MaxJobsPerUser)),
    qos("MaxJobsPerUser", 11, "MaxJobsPU", 9, QosKey::Limit(Rule::MaxJobsPerUser)),
    qos("MaxJobsPA", 9, "MaxJobsPA", 9, QosKey::Limit(Rule::MaxJobsPerAccount)),
    qos("MaxJobsPerAccount", 11, "MaxJobsPA", 9, QosKey::Limit(Rule::MaxJobsPerAccount)),
    qos("MaxJobsAccruePU", 15, "MaxJobsAccruePU", 15, QosKey::Limit(Rule::MaxJobsAccruePerUser)),
    qos("MaxJobsAccruePA", 15, "MaxJobsAccruePA", 15, QosKey::Limit(Rule::MaxJobsAccruePerAccount)),
    qos("MaxNodesPerJob", 4, "MaxNodes", 8, QosKey::Nodes(Rule::MaxTres)),
    qos("MaxNodesPerUser", 12, "MaxNodesPU", 10, QosKey::Nodes(Rule::MaxTresPerUser)),
    qos("MaxSubmitPU", 4, "MaxSubmitPU", 11, QosKey::Limit(Rule::MaxSubmitPerUser)),
    qos("MaxSubmitJobsPerUser", 10, "MaxSubmitPU", 11, QosKey::Limit(Rule::MaxSubmitPerUser)),
    qos("MaxSubmitPA", 11, "MaxSubmitPA", 11, QosKey::Limit(Rule::MaxSubmitPerAccount)),
    qos("MaxSubmitJobsPerAccount", 17, "MaxSubmitPA", 11, QosKey::Limit(Rule::MaxSubmitPerAccount)),
    qos("MaxTRESPerJob", 7, "MaxTRES", 13, QosKey::Limit(Rule::MaxTres)),
    qos("MaxTRESPerNode", 11, "MaxTRESPerNode", 14, QosKey::Limit(Rule::MaxTresPerNode)),
    qos("MaxTRESMinsPerJob", 8, "MaxTRESMins", 13, QosKey::Limit(Rule::MaxTresMin)),
    qos("MaxTRESPU", 9, "MaxTRESPU", 13, QosKey::Limit(Rule::MaxTresPerUser)),
    qos("MaxTRESPerUser", 11, "MaxTRESPU", 13, QosKey::Limit(Rule::MaxTresPerUser)),
    qos("MaxTRESPA", 9, "MaxTRESPA", 13, QosKey::Limit(Rule::MaxTresPerAccount)),
    qos("MaxTRESPerAccount", 11, "MaxTRESPA", 13, QosKey::Limit(Rule::MaxTresPerAccount)),
    qos("MaxTRESRunMinsPA", 15, "MaxTRESRunMinsPA", 22, QosKey::Limit(Rule::MaxTresRunMinPerAccount)),
    qos("MaxTRESRunMinsPU", 15, "MaxTRESRunMinsPU", 22, QosKey::Limit(Rule::MaxTresRunMinPerUser)),
    qos("MaxWallDurationPerJob", 4, "MaxWall", 11, QosKey::Limit(Rule::MaxWallMin)),
    qos("MinPrioThreshold", 4, "MinPrioThres", 12, QosKey::Limit(Rule::MinPriority)),
    qos("MinTRESPerJob", 4, "MinTRES", 13, QosKey::Limit(Rule::MinTres)),
    qos("PreemptMode", 8, "PreemptMode", 11, QosKey::PreemptMode),
    qos("PreemptExemptTime", 8, "PreemptExemptTime", 19, QosKey::PreemptExempt),
    qos("Preempt", 3, "Preempt", 10, QosKey::Preempt),
    qos("Priority", 3, "Priority", 10, QosKey::Priority),
    qos("UsageFactor", 6, "UsageFactor", 11, QosKey::UsageFactor),
    qos("UsageThreshold", 6, "UsageThres", 10, QosKey::UsageThreshold),
];

/// Of `show qos`.
pub const QOS_ALL: &str = "name,priority,gracetime,preempt,preemptexempttime,preemptmode,flags%40,usagethres,usagefactor,\
    grptres,grptresmins,grptresrunmins,grpjobs,grpsubmit,grpwall,maxtres,maxtrespernode,maxtresmins,maxwall,maxtrespu,\
    maxjobspu,maxsubmitpu,maxtrespa,maxtresrunminspa,maxtresrunminspu,maxjobspa,maxsubmitpa,mintres";

/// What a column of a table of texts shows: its place in the row.
pub type Place = usize;

const fn text(name: &'static str, head: &'static str, width: i32, key: Place) -> Column<Place> {
    Column { name, least: 1, head, width, key }
}

/// Of `show tres`.
pub const TRES: &[Column<Place>] = &[text("Type", "Type", 8, 0), text("Name", "Name", 15, 1), text("ID", "ID", 6, 2)];
/// Of `show wckey`.
pub const WCKEY: &[Column<Place>] =
    &[text("WCKey", "WCKey", 10, 0), text("Cluster", "Cluster", 10, 1), text("User", "User", 10, 2)];
/// Of `show problem`.
pub const PROBLEM: &[Column<Place>] = &[
    text("Cluster", "Cluster", 10, 0),
    text("Account", "Account", 10, 1),
    text("User", "User", 10, 2),
    text("Problem", "Problem", 40, 3),
];
/// Of `show resource`.
pub const RESOURCE: &[Column<Place>] = &[
    text("Name", "Name", 10, 0),
    text("Server", "Server", 10, 1),
    text("Type", "Type", 8, 2),
    text("Count", "Count", 6, 3),
    text("LastConsumed", "LastConsumed", 12, 4),
    text("Allocated", "Allocated", 9, 5),
    text("ServerType", "ServerType", 10, 6),
    text("Flags", "Flags", 20, 7),
];
/// Of `show reservation`.
pub const RESERVATION: &[Column<Place>] = &[
    text("Cluster", "Cluster", 10, 0),
    text("Name", "Name", 15, 1),
    text("TRES", "TRES", 30, 2),
    text("TimeStart", "TimeStart", 19, 3),
    text("TimeEnd", "TimeEnd", 19, 4),
    text("UnusedWall", "UnusedWall", 10, 5),
];
/// Of `show federation`.
pub const FEDERATION: &[Column<Place>] = &[
    text("Federation", "Federation", 10, 0),
    text("Cluster", "Cluster", 10, 1),
    text("ID", "ID", 2, 2),
    text("Features", "Features", 20, 3),
    text("FedState", "FedState", 12, 4),
];
