//! Random sequences of writes, the same to our server and to a real one: a case for each kind and seed.

use std::sync::Arc;

use super::planes::Shared;
use super::{Case, Stop, Suite, names, real_missing};
use crate::limits::REAL;
use crate::planes::Planes;
use crate::random::{Bench, Kind, folder, kinds};

/// The seeds of every run, of each kind; `cargo run --example random` plays others.
const SEEDS: std::ops::Range<u64> = 0..8;

pub(super) fn suite(pair: &Arc<Shared<Planes>>) -> Result<Suite, String> {
    let kinds = kinds(&folder())?;
    let all = SEEDS.flat_map(|seed| kinds.iter().map(move |kind| (kind.clone(), seed)));
    let cases: Vec<Case> = all.map(|(kind, seed)| case(pair, kind, seed)).collect();
    let requests: usize =
        SEEDS.flat_map(|seed| kinds.iter().map(move |it| it.sequence(seed).steps.len())).sum();
    let finish = move |_: &_| Ok(vec![format!("a whole run compares {requests} requests")]);
    Ok(Suite { label: "random writes".to_owned(), cases, finish: Box::new(finish) })
}

fn case(pair: &Arc<Shared<Planes>>, kind: Kind, seed: u64) -> Case {
    let pair = pair.clone();
    let name = names::name(&["random", kind.name(), &format!("seed {seed}")]);
    Case::new(name, &REAL, real_missing(), move |run| {
        let planes = pair.get(run)?;
        match Bench::new(&planes.ours, &planes.real)?.play(&kind, seed)? {
            None => Ok(()),
            Some(text) => Err(Stop::Failed(text)),
        }
    })
}
