//! The real core, scheduler and agent on virtual time with one seed and injected faults.
