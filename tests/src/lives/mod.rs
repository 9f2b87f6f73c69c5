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

use muster_tree::Tree;

pub use life::{Happening, Life, load};

use crate::differential::{Difference, Server, compare_trees};

/// How often what is left is looked at until it is alike.
pub(crate) const LOOKS_MAX: u32 = 5;
/// The pause between two looks.
pub(crate) const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_secs(2);

/// A life as it is played on our plane, and on the real one.
pub type Pair = (Life, Life);

/// Plays a life on both planes in namespaces of this name; what differs between what is left of it.
pub fn compare(
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
