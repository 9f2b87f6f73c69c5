//! Name conflicts between CRDs of one group.

use std::collections::BTreeSet;

use muster_tree::Tree;

/// The names that are free, and the first conflict (reason, message).
pub(super) fn accept(definition: &Tree, others: &[Tree]) -> (Tree, Option<(&'static str, String)>) {
    let taken = Taken::by(definition, others);
    let wanted = definition.at(&["spec", "names"]).unwrap_or(&Tree::Null);
    let mut accepted = definition.at(&["status", "acceptedNames"]).cloned().unwrap_or_else(Tree::empty_map);
    let mut conflict = None;
    let mut refuse = |reason: &'static str, name: &str| {
        conflict.get_or_insert((reason, format!("{name:?} is already in use")));
    };
    for (key, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        match wanted.str_at(&[key]) {
            name if taken.resources.contains(name) => refuse(reason, name),
            name => accepted = accepted.with(&[key], name),
        }
    }
    let short = wanted.items_at(&["shortNames"]);
    match short.iter().filter_map(Tree::as_str).find(|name| taken.resources.contains(*name)) {
        Some(name) => refuse("ShortNamesConflict", name),
        None => {
            accepted = accepted
                .with_option(&["shortNames"], (!short.is_empty()).then(|| Tree::list(short.to_vec())));
        }
    }
    for (key, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        match wanted.str_at(&[key]) {
            name if taken.kinds.contains(name) => refuse(reason, name),
            name => accepted = accepted.with(&[key], name),
        }
    }
    accepted = accepted.with_option(&["categories"], wanted.get("categories").cloned());
    if accepted.get("kind").is_none() {
        accepted = accepted.with(&["kind"], "");
    }
    (accepted, conflict)
}

#[derive(Default)]
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Accepted names of other CRDs of the group.
    fn by(definition: &Tree, others: &[Tree]) -> Taken {
        let mut taken = Taken::default();
        let (name, group) = (definition.str_at(&["metadata", "name"]), definition.str_at(&["spec", "group"]));
        let others = others.iter().filter(|other| other.str_at(&["metadata", "name"]) != name);
        for other in others.filter(|other| other.str_at(&["spec", "group"]) == group) {
            let names = other.at(&["status", "acceptedNames"]).unwrap_or(&Tree::Null);
            let short = names.items_at(&["shortNames"]).iter().filter_map(Tree::as_str);
            let words = [names.str_at(&["plural"]), names.str_at(&["singular"])].into_iter().chain(short);
            taken.resources.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
            let words = [names.str_at(&["kind"]), names.str_at(&["listKind"])];
            taken.kinds.extend(words.into_iter().filter(|word| !word.is_empty()).map(str::to_owned));
        }
        taken
    }
}
