//! Which pods are placed together: a word, and it stays. Jobs that are there could not join another gang.

use muster_api::gang_objects::consts;
use muster_api::meta;
use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::Answer;
use crate::gangs::GangScope;

fn path() -> String {
    format!("metadata.annotations[{}]", consts::GANG)
}

/// Validates the gang annotation of a new JobSet.
pub(super) fn check(set: &Tree, answer: &mut Answer) {
    let Some(word) = meta::annotation(set, consts::GANG).filter(|word| GangScope::of(word).is_none()) else {
        return;
    };
    answer.problems.push(FieldError::not_supported(path(), word, GangScope::WORDS));
}

/// The gang annotation is immutable.
pub(super) fn check_change(old: &Tree, new: &Tree, answer: &mut Answer) {
    let [before, after] = [old, new].map(|set| meta::annotation(set, consts::GANG));
    if before == after {
        return;
    }
    let why = "field is immutable: delete the JobSet and create it anew to group its pods otherwise";
    answer.problems.push(FieldError::invalid(path(), after.map_or(Tree::Null, Tree::from), why));
}

#[cfg(test)]
mod tests {
    use muster_api::paths::meta as meta_path;
    use muster_tree::tree;

    use super::*;
    use crate::admission::testing::{FakeLister, expect, expect_update, set};

    fn asking(word: &str) -> Tree {
        set(&tree!({})).with(meta_path::ANNOTATIONS, Tree::map([(consts::GANG, word)]))
    }

    /// Shows: 5832-50.
    #[test]
    fn it_is_one_of_three_values() {
        for word in GangScope::WORDS {
            expect(&asking(word), &[]);
        }
        for word in ["", "true", "perjob", "All"] {
            expect(&asking(word), &["metadata.annotations[scheduling.muster.dev/gang]: Unsupported value"]);
        }
    }

    #[test]
    fn it_stays_as_it_is() {
        let (nothing, plain, all) = (FakeLister::default(), set(&tree!({})), asking("AllReplicas"));
        expect_update(&all, &all, &nothing, &[]);
        for (old, new) in [(&all, &plain), (&plain, &all), (&all, &asking("PerJob"))] {
            expect_update(old, new, &nothing, &["scheduling.muster.dev/gang]: Invalid value"]);
        }
        let noted = all.with(&["metadata", "annotations", "other"], "x");
        expect_update(&all, &noted, &nothing, &[]);
    }
}
