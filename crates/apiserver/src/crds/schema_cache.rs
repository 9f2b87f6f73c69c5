//! A cache of compiled CRD schemas: each is needed for validation, serving and bundled CRDs at startup, and compiling
//! is expensive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use muster_schema::crd;
use muster_schema::error::FieldError;
use muster_schema::node::SchemaRef;
use muster_schema::rules::Rules;
use muster_tree::Tree;

/// Cache capacity; the oldest entry is evicted first.
const KEPT_MAX: usize = 32;

/// A compiled schema with its CEL rules.
#[derive(Debug, Clone)]
pub(super) struct CompiledSchema {
    pub schema: SchemaRef,
    pub rules: Arc<Rules>,
}

static KEPT: Mutex<VecDeque<(Tree, CompiledSchema)>> = Mutex::new(VecDeque::new());

/// Compiles the schema at path `base` of its CRD, or returns all errors.
pub(super) fn at(base: &str, schema: &Tree) -> Result<CompiledSchema, Vec<FieldError>> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = kept.iter().find(|(known, _)| known == schema) {
        return Ok(known.clone());
    }
    // Compile without the lock: other schemas are not blocked.
    drop(kept);
    let compiled = crd::compile_at(base, schema)?;
    let rules = Arc::new(Rules::compile_at(base, &compiled)?);
    let compiled = CompiledSchema { schema: compiled, rules };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.truncate(KEPT_MAX - 1);
    // Two threads may have compiled the same schema: a duplicate entry is harmless.
    kept.push_front((schema.clone(), compiled.clone()));
    Ok(compiled)
}
