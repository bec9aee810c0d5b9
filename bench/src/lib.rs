//! Criterion benches and side-by-side loads.
