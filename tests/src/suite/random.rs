//! Random sequences of writes to both servers: a case for each kind and seed.

use std::sync::Arc;

use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, Suite, names, real_cluster_unavailable};
use crate::limits::REAL;
use crate::random::{RandomComparison, RandomKind, folder, kinds};
use crate::server_pair::ServerPair;

/// Seeds of every run, per kind; `cargo run --example random` runs others.
const SEEDS: std::ops::Range<u64> = 0..8;

pub(super) fn suite(pair: &Arc<SharedEnvironment<ServerPair>>) -> Result<Suite, String> {
    let kinds = kinds(&folder())?;
    let all = SEEDS.flat_map(|seed| kinds.iter().map(move |kind| (kind.clone(), seed)));
    let cases: Vec<Case> = all.map(|(kind, seed)| case(pair, kind, seed)).collect();
    let requests: usize =
        SEEDS.flat_map(|seed| kinds.iter().map(move |it| it.sequence(seed).steps.len())).sum();
    let finish = move |_: &_| Ok(vec![format!("a complete run compares {requests} requests")]);
    Ok(Suite { label: "random writes".to_owned(), cases, finish: Box::new(finish) })
}

fn case(pair: &Arc<SharedEnvironment<ServerPair>>, kind: RandomKind, seed: u64) -> Case {
    let pair = pair.clone();
    let name = names::name(&["random", kind.name(), &format!("seed {seed}")]);
    Case::new(name, &REAL, real_cluster_unavailable(), move |run| {
        let planes = pair.get(run)?;
        match RandomComparison::new(&planes.ours, &planes.real)?.run_seed(&kind, seed)? {
            None => Ok(()),
            Some(text) => Err(CaseError::Failed(text)),
        }
    })
}
