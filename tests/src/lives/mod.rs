//! The lives of Jobs and of other objects: what their controllers make of them, on both planes with the same nodes.
//!
//! A life is a Job, or a few objects, and what happens to them: the expectation is what the real controllers do. Both
//! planes play it in a namespace of their own; afterwards what is left of it is compared as far as it does not depend
//! on chance and on the clock: of a Job itself, its pods and its events; of other objects all of `whole`.

pub(crate) mod act;
mod life;
mod look;
pub(crate) mod objects;
pub(crate) mod sets;
pub(crate) mod view;
pub(crate) mod whole;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_tree::Tree;

pub use life::{Happening, Life, load};

use crate::clients::note;
use crate::differential::{Difference, Server, compare_trees};

/// Lives played at the same time on one plane: they mostly wait.
const AT_ONCE: usize = 12;

/// How often what is left is looked at until it is alike.
pub(crate) const LOOKS_MAX: u32 = 5;
/// Most verdicts of one run that are looked into once more: where more differ, it is not by chance.
const SECOND_TRIES_MAX: usize = 8;

/// The pause between two looks.
pub(crate) const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_secs(2);

/// What differed in one life, or why it could not be played.
pub type Verdict = (String, Result<Vec<Difference>, String>);

/// A life as it is played on our plane, and on the real one.
type Pair = (Life, Life);

/// Plays all lives of a folder whose name contains `filter` on both planes.
pub fn judge(ours: &Server, real: &Server, folder: &Path, filter: &str) -> Result<Vec<Verdict>, String> {
    let lives = load(folder)?.into_iter().filter(|life| life.name.contains(filter));
    let pairs: Vec<Pair> = lives.map(|life| (life.clone(), life)).collect();
    Ok(judge_pairs(ours, real, &pairs, "life"))
}

/// Plays the lives of a folder that are made of objects on both planes, where on ours the pods name this scheduler.
pub fn judge_scheduler(
    scheduler: &str,
    ours: &Server,
    real: &Server,
    folder: &Path,
) -> Result<Vec<Verdict>, String> {
    let lives = load(folder)?.into_iter().filter(|life| !life.objects.is_empty());
    let pairs: Vec<Pair> = lives.map(|life| (life.scheduled_by(scheduler), life)).collect();
    Ok(judge_pairs(ours, real, &pairs, "scheduled"))
}

/// Each pair has a namespace of its own, which begins with `space`: other tests may use the same planes.
fn judge_pairs(ours: &Server, real: &Server, pairs: &[Pair], space: &str) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts: Mutex<Vec<(usize, Verdict)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((n, pair)) = take(pairs, &next) {
                    let namespace = format!("{space}-{n}-{}", std::process::id());
                    let verdict = (pair.0.name.clone(), compare(ours, real, pair, &namespace));
                    verdicts.lock().expect("no thread panics with it").push((n, verdict));
                }
            });
        }
    });
    let mut all = verdicts.into_inner().expect("no thread panics with it");
    all.sort_by_key(|(n, _)| *n);
    let mut all: Vec<Verdict> = all.into_iter().map(|(_, verdict)| verdict).collect();
    try_again(&mut all, |n| {
        compare(ours, real, &pairs[n], &format!("{space}-{n}-{}-again", std::process::id()))
    });
    all
}

/// What differs while a machine is overloaded is played once more by itself. Only what differs then, too, is a difference;
/// the others are named.
pub(crate) fn try_again(verdicts: &mut [Verdict], play: impl Fn(usize) -> Result<Vec<Difference>, String>) {
    let differs = |(_, verdict): &Verdict| !verdict.as_ref().is_ok_and(Vec::is_empty);
    let those: Vec<usize> = (0..verdicts.len()).filter(|n| differs(&verdicts[*n])).collect();
    if those.len() > SECOND_TRIES_MAX {
        return;
    }
    for n in those {
        let second = play(n);
        if second.as_ref().is_ok_and(Vec::is_empty) {
            note(&format!("alike at the second try only: {:?}: {}", verdicts[n].0, shown(&verdicts[n].1)));
        }
        verdicts[n].1 = second;
    }
}

fn shown(verdict: &Result<Vec<Difference>, String>) -> String {
    match verdict {
        Ok(differences) => differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(why) => why.clone(),
    }
}

fn take<'a>(pairs: &'a [Pair], next: &AtomicUsize) -> Option<(usize, &'a Pair)> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    pairs.get(n).map(|pair| (n, pair))
}

fn compare(
    ours: &Server,
    real: &Server,
    (life, real_life): &Pair,
    namespace: &str,
) -> Result<Vec<Difference>, String> {
    let both = |look: &(dyn Fn(&Server, &Life) -> Result<Tree, String> + Sync)| {
        std::thread::scope(|scope| {
            let here = scope.spawn(|| look(ours, life));
            let there = look(real, real_life);
            (here.join().unwrap_or_else(|_| Err("playing it panicked".to_owned())), there)
        })
    };
    let played = both(&|server, life| act::play(server, life, namespace).map(|()| Tree::Null));
    let mut found = told(played)?;
    for _ in 0..LOOKS_MAX {
        found = told(both(&|server, life| left(server, life, namespace)))?;
        if found.is_empty() {
            break;
        }
        // Controllers of a busy plane may have something to add.
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(found)
}

/// What differs between both planes.
fn told(both: (Result<Tree, String>, Result<Tree, String>)) -> Result<Vec<Difference>, String> {
    match both {
        (Ok(here), Ok(there)) => Ok(compare_trees(&here, &there)),
        (Err(why), Ok(_)) => Err(format!("only ours: {why}")),
        (Ok(_), Err(why)) => Err(format!("only the real one: {why}")),
        (Err(why), Err(_)) => Err(format!("neither plane gets there: {why}")),
    }
}

/// What is left of a life that was played.
fn left(server: &Server, life: &Life, namespace: &str) -> Result<Tree, String> {
    let look = if life.objects.is_empty() { view::picture } else { whole::picture };
    view::settled(|| look(server, namespace))
}
