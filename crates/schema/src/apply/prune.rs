//! Removes the fields that an applier no longer applies.

use muster_tree::Tree;

use crate::fields;
use crate::node::View;

/// Removes the fields of the applier's last configuration that have no owner any more.
///
/// `last` are the fields it owned, `owned` the fields that any manager owns now, its new configuration included. A field
/// with items is removed as a whole first; then owned fields are restored, then fields that the applier never owned.
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

/// Replaces each `null` that pruning left by an empty list or map: the field itself still has an owner.
pub(super) fn settle(view: View<'_>, merged: &Tree, pruned: &Tree) -> Tree {
    settle_value(Some(view), merged, pruned)
}

fn settle_value(view: Option<View<'_>>, before: &Tree, after: &Tree) -> Tree {
    match (before, after) {
        _ if before.same_branch(after) => after.clone(),
        (Tree::Map(_), Tree::Null) => Tree::empty_map(),
        (Tree::List(_), Tree::Null) => Tree::empty_list(),
        (Tree::Map(_), Tree::Map(_)) => after.map_entries(|key, left| {
            let inner = view.and_then(|view| view.below(key));
            Some(before.get(key).map_or_else(|| left.clone(), |before| settle_value(inner, before, left)))
        }),
        (Tree::List(_), Tree::List(_)) => {
            let Some(list) = view else { return after.clone() };
            // Pruning keeps the order, so the next remaining item comes later in the list.
            let mut rest = before.items().iter();
            after.map_items(|_, left| {
                let key = fields::key_of(list, left);
                let before = rest.find(|item| item.same_branch(left) || fields::key_of(list, item) == key);
                before.map_or_else(|| left.clone(), |before| settle_value(list.item(), before, left))
            })
        }
        _ => after.clone(),
    }
}
