//! What the output depends on besides the records: the cluster, its time, the zone, names of users.

use std::cell::RefCell;

use gpun_compat::{format::Shown, moment::Style};
use gpun_proto::core::view::ClusterView;
use jiff::tz::TimeZone;

use crate::{people::People, slurm};

/// The surroundings of a listing.
pub struct Display {
    cluster: String,
    now_s: i64,
    zone: TimeZone,
    def_mem_per_cpu_mib: Option<u64>,
    people: RefCell<People>,
}

impl Display {
    /// Of this cluster, at its time in milliseconds since 1970, in this zone.
    pub fn new(cluster: &ClusterView, now_ms: u64, zone: &TimeZone) -> Self {
        Self {
            cluster: cluster.settings.cluster_name.clone(),
            def_mem_per_cpu_mib: cluster.settings.def_mem_per_cpu.map(|memory| memory.0),
            ..Self::plain(now_ms, zone)
        }
    }

    /// At a time in milliseconds since 1970, for columns that need nothing of the cluster's settings.
    pub fn plain(now_ms: u64, zone: &TimeZone) -> Self {
        Self {
            cluster: String::new(),
            now_s: i64::try_from(now_ms / 1000).unwrap_or(i64::MAX),
            zone: zone.clone(),
            def_mem_per_cpu_mib: None,
            people: RefCell::default(),
        }
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Prints with these surroundings.
    pub fn with<T>(&self, noconvert: bool, print: impl FnOnce(&Shown<'_>) -> T) -> T {
        let user_name =
            |uid: u32| self.people.try_borrow_mut().ok().and_then(|mut p| p.find(uid).map(|p| p.name.clone()));
        print(&Shown {
            now_s: self.now_s,
            zone: &self.zone,
            style: Style::from_env(slurm::variable("SLURM_TIME_FORMAT").as_deref()),
            cluster: &self.cluster,
            user_name: &user_name,
            def_mem_per_cpu_mib: self.def_mem_per_cpu_mib,
            bitstr_len: slurm::variable("SLURM_BITSTR_LEN"),
            noconvert,
        })
    }
}
