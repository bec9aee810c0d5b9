//! Licences: counted over the whole cluster, taken by jobs that hold resources.

use std::collections::BTreeMap;

use crate::{
    Refusal, State,
    job::Job,
    spec::{JobSpec, LicenseRequest},
};

impl JobSpec {
    /// How many of each licence a run takes, in the order of names.
    pub fn licenses_needed(&self) -> BTreeMap<&str, u64> {
        let mut needed = BTreeMap::new();
        for LicenseRequest { name, count } in &self.licenses {
            *needed.entry(name.as_str()).or_insert(0) += u64::from(count.unwrap_or(1));
        }
        needed
    }
}

impl State {
    /// How many of a licence there are; `None` for one that the cluster does not have.
    pub fn license_total(&self, name: &str) -> Option<u32> {
        self.settings.licenses.iter().find(|license| license.name == name).map(|license| license.total)
    }

    /// How many of a licence jobs have.
    pub fn license_used(&self, name: &str) -> u64 {
        self.licenses_taken.get(name).copied().unwrap_or(0)
    }

    /// True if what a job needs of licences is there now.
    pub fn licenses_free_for(&self, job: &Job) -> bool {
        let free =
            |name: &str| u64::from(self.license_total(name).unwrap_or(0)).saturating_sub(self.license_used(name));
        job.spec.licenses.is_empty() || job.spec.licenses_needed().iter().all(|(name, count)| *count <= free(name))
    }

    pub(crate) fn take_licenses(&mut self, job: &Job) {
        for (name, count) in job.spec.licenses_needed() {
            *self.licenses_taken.entry(name.to_owned()).or_insert(0) += count;
        }
    }

    pub(crate) fn free_licenses(&mut self, job: &Job) {
        for (name, count) in job.spec.licenses_needed() {
            let left = self.license_used(name).saturating_sub(count);
            if left == 0 {
                self.licenses_taken.remove(name);
            } else {
                self.licenses_taken.insert(name.to_owned(), left);
            }
        }
    }
}

/// Refuses licences that the cluster does not have, and more than it has.
pub(super) fn admit_licenses(state: &State, spec: &JobSpec) -> Result<(), Refusal> {
    let has = |(name, count): (&str, u64)| state.license_total(name).is_some_and(|total| count <= u64::from(total));
    if spec.licenses_needed().into_iter().all(has) { Ok(()) } else { Err(Refusal::License) }
}
