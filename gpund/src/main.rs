//! The node daemon: agent, ledger, link, probes, OCI bundles, per-job supervisors.

fn main() {}
