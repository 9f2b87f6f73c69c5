//! A JobSet that is never made, to see whether the API server asks our hooks: whichever replica it asks.
//!
//! Those who fill in mark it, those who judge refuse it in words that nobody else says. So one answer of the server shows
//! that both were asked, over the Service, with certificates it trusts.
//!
//! # Invariants
//!
//! - Only dry runs are answered so: an object that would be kept is judged by what it says.

use muster_api::kinds;
use muster_api::meta;
use muster_api::port::{Act, Call, Guard, Part, Target};
use muster_api::words::{annotations, jobset as words};
use muster_install::hooks::Say;
use muster_jobset::admission::Answer;
use muster_tree::{Tree, tree};

use super::MANAGER;
use super::review::Question;

/// The JobSet that is rehearsed, never made.
pub const REHEARSED: &str = "muster-rehearsal";

/// The call to be rehearsed; without a word for the hooks to answer it is a JobSet as any other.
pub fn call(namespace: &str, word: Option<&str>) -> Call {
    let kind = kinds::JOBSETS.clone();
    let on = Target { kind, namespace: namespace.into(), name: REHEARSED.into(), part: Part::Main };
    let set = tree!({"apiVersion": words::API_VERSION, "kind": words::KIND, "spec": {"replicatedJobs": []}});
    let set = match word {
        Some(word) => set.with(&["metadata", "annotations"], Tree::map([(annotations::REHEARSAL, word)])),
        None => set,
    };
    Call { by: MANAGER, on, guard: Guard::default(), act: Act::Create(set) }
}

/// What hooks answer to a rehearsal; `None` to anything else.
pub fn answer(question: &Question, say: Say) -> Option<Answer> {
    let set = &question.object;
    let word = meta::annotation(set, annotations::REHEARSAL).filter(|_| question.is_dry_run)?;
    Some(match say {
        Say::Change => {
            let changed = set.with(&["metadata", "annotations", annotations::REHEARSED], word);
            Answer { changed: Some(changed), ..Answer::default() }
        }
        Say::Refuse if meta::annotation(set, annotations::REHEARSED) == Some(word) => {
            Answer { refused: Some(heard(word)), ..Answer::default() }
        }
        Say::Refuse => {
            let words = "muster was asked to judge a rehearsal that it was not asked to fill in".to_owned();
            Answer { refused: Some(words), ..Answer::default() }
        }
    })
}

/// Whether these words of the server show that the hooks were asked about `word`.
pub fn is_heard(said: &str, word: &str) -> bool {
    said.contains(&heard(word))
}

fn heard(word: &str) -> String {
    format!("muster heard the rehearsal {word:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(object: &Tree, is_dry_run: bool) -> Question {
        Question { object: object.clone(), is_dry_run, ..Question::default() }
    }

    #[test]
    fn both_have_to_be_asked() {
        let Act::Create(set) = call("n", Some("w")).act else { panic!("it is created") };
        let words = |answer: Option<Answer>| answer.unwrap().refused.unwrap();
        assert!(!is_heard(&words(answer(&asked(&set, true), Say::Refuse)), "w"), "nobody filled it in");
        let filled = answer(&asked(&set, true), Say::Change).unwrap().changed.unwrap();
        assert!(is_heard(&words(answer(&asked(&filled, true), Say::Refuse)), "w"));
        assert!(!is_heard(&words(answer(&asked(&filled, true), Say::Refuse)), "v"), "another's");
        assert!(answer(&asked(&set, false), Say::Change).is_none(), "what is kept is judged as ever");
        let Act::Create(plain) = call("n", None).act else { panic!("it is created") };
        assert!(answer(&asked(&plain, true), Say::Refuse).is_none());
    }
}
