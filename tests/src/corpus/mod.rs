//! The corpus: the CRDs that JobSet, Kueue and Trainer publish, and for each of their CEL rules an object that breaks
//! it, sent to our server and to a real one.
//!
//! The CRDs are read where Go keeps the modules that publish them and are never copied. The objects are ours
//! (`tests/corpus/*.yaml`): a valid one per kind, and small patches of it that each break one rule. A rule is known by
//! its kind, version, place in the schema and message; one that stands at several places has a case for each.
//!
//! # Invariants
//!
//! - The rules are enumerated from the CRDs: one without a case fails the test, and so does a case without a rule.
//! - A case counts only if the real server names exactly its rule. What cannot be broken alone says `with_others`, what
//!   cannot be broken at all stands under `unbreakable`, with its reason.
//!
//! # Deliberately absent
//!
//! Conversion webhooks. The CRDs are taken as generated, which convert nothing; the projects add their webhooks on
//! installation, and nobody would answer here.

mod cases;
mod modules;
mod rules;
mod run;

pub use cases::{Case, Group, Request, load, patched};
pub use modules::{Crd, crds, documents_of, jobset_definition};
pub use rules::{Place, places};
pub use run::{Pair, Report};
