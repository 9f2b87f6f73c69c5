//! Schemas of definitions, compiled once in this process: a definition is checked, served, and brought along at every
//! start, and compiling is the expensive part.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use muster_schema::crd;
use muster_schema::error::FieldError;
use muster_schema::node::SchemaRef;
use muster_schema::rules::Rules;
use muster_tree::Tree;

/// Schemas that are kept; the oldest goes first.
const KEPT_MAX: usize = 32;

/// A schema and its rules.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub schema: SchemaRef,
    pub rules: Arc<Rules>,
}

static KEPT: Mutex<VecDeque<(Tree, Compiled)>> = Mutex::new(VecDeque::new());

/// Compiles a schema that stands at `base` of its definition; all that is wrong with it otherwise.
pub(super) fn at(base: &str, schema: &Tree) -> Result<Compiled, Vec<FieldError>> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = kept.iter().find(|(known, _)| known == schema) {
        return Ok(known.clone());
    }
    // Others need not wait while this one is compiled.
    drop(kept);
    let compiled = crd::compile_at(base, schema)?;
    let rules = Arc::new(Rules::compile_at(base, &compiled)?);
    let compiled = Compiled { schema: compiled, rules };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.truncate(KEPT_MAX - 1);
    kept.push_front((schema.clone(), compiled.clone()));
    Ok(compiled)
}
