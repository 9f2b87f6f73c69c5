//! Conformance of CRD validation: installs the CRDs that JobSet, Kueue and Trainer publish, and sends an object that violates each of
//! their CEL rules to our server and to kube-apiserver.
//!
//! The CRDs are read from the Go module cache and never copied. The objects are ours (`tests/corpus/*.yaml`): a valid one per kind, and
//! small patches of it that each violate one rule. A rule is identified by kind, version, location in the schema and message; the same
//! rule at several locations has a case for each.
//!
//! # Invariants
//!
//! - The rules are enumerated from the CRDs: a rule without a case fails the test, and so does a case without a rule.
//! - A case passes only if kube-apiserver reports exactly its rule. A rule that cannot be violated alone has `with_others`; a rule that
//!   cannot be violated at all is listed under `unbreakable` with the reason.
//!
//! # Deliberately absent
//!
//! Conversion webhooks. The generated CRDs have none; the projects add theirs during installation, and no webhook server runs here.

mod cases;
mod modules;
mod rules;
mod run;

pub use cases::{CorpusCase, CorpusGroup, CorpusRequest, load, patched};
pub use modules::{Crd, crds, documents_of, jobset_crd};
pub use rules::{RuleLocation, places};
pub use run::{CorpusReport, CorpusRun};
