//! Violations of the rules that are known and not fixed yet. Entries are deleted, never added.

/// Public type names that are defined in more than two packages, with those packages.
pub const HOMONYMS: &[(&str, &[&str])] = &[];

/// Wire constants that are written outside `crates/api`: file and literal.
pub const WIRE_LITERALS: &[(&str, &str)] = &[];
