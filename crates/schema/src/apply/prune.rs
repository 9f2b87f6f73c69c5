//! Taking away what an applier no longer wants.

use muster_tree::Tree;

use crate::fields;
use crate::node::View;

/// The merged object without the fields of the applier's last configuration that nobody owns any more.
///
/// `last` is what it owned, `owned` what anybody owns now, its new configuration included. A field with items of
/// its own is taken whole at first, then whatever is owned comes back, then whatever never was the applier's.
pub(super) fn prune(view: View<'_>, merged: &Tree, last: &Tree, owned: &Tree) -> Tree {
    let named = |set: &Tree| fields::named(view, set);
    let set_of = |tree: &Tree| named(&fields::of(view, tree));
    let (last, owned, all) = (named(last), named(owned), set_of(merged));
    let bare = fields::remove(view, merged, &last);
    let unowned = fields::difference(&all, &fields::union(&set_of(&bare), &owned));
    let kept = fields::remove(view, merged, &unowned);
    let gone = fields::intersection(&fields::difference(&all, &set_of(&kept)), &last);
    fields::remove(view, merged, &gone)
}

/// The pruned object without the `null`s that pruning left in place of emptied lists and maps.
pub(super) fn settle(merged: &Tree, pruned: &Tree) -> Tree {
    if merged.same_branch(pruned) {
        return pruned.clone();
    }
    pruned.map_entries(|key, left| match (merged.get(key), left) {
        (Some(Tree::Map(_) | Tree::List(_)), Tree::Null) => None,
        (Some(before @ Tree::Map(_)), Tree::Map(_)) => Some(settle(before, left)),
        _ => Some(left.clone()),
    })
}
