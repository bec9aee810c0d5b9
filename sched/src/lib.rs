//! The decision: plan(&State, now) -> Plan. Pure.
