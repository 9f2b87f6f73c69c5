//! Copy on the first change: an entry list that stays borrowed until something in it changes.

use muster_tree::{Text, Tree};

/// What becomes of one entry.
pub(super) enum Edit {
    /// The entry stays unchanged.
    Keep,
    /// It gets this value.
    Set(Tree),
    /// The entry is removed.
    Drop,
}

/// The entries of a map under change, copied when the first change comes. Changes come in key order.
pub(super) struct Entries<'a> {
    old: &'a [(Text, Tree)],
    /// How many old entries are already in `new`.
    taken: usize,
    new: Option<Vec<(Text, Tree)>>,
}

impl<'a> Entries<'a> {
    pub(super) fn over(old: &'a [(Text, Tree)]) -> Self {
        Self { old, taken: 0, new: None }
    }

    /// Changes the old entry at `at`.
    pub(super) fn edit(&mut self, at: usize, edit: Edit) {
        match edit {
            Edit::Keep => {}
            Edit::Set(value) => {
                let key = self.old[at].0.clone();
                self.up_to(at).push((key, value));
                self.taken = at + 1;
            }
            Edit::Drop => {
                self.up_to(at);
                self.taken = at + 1;
            }
        }
    }

    /// Puts a new entry in front of the old one at `at`.
    pub(super) fn insert(&mut self, at: usize, key: Text, value: Tree) {
        self.up_to(at).push((key, value));
    }

    /// The changed map, or `None` when nothing changed.
    pub(super) fn finish(mut self) -> Option<Tree> {
        self.new.as_ref()?;
        let end = self.old.len();
        self.up_to(end);
        self.new.map(Tree::from_sorted)
    }

    fn up_to(&mut self, at: usize) -> &mut Vec<(Text, Tree)> {
        let new = self.new.get_or_insert_with(|| Vec::with_capacity(self.old.len() + 4));
        if at > self.taken {
            new.extend_from_slice(&self.old[self.taken..at]);
            self.taken = at;
        }
        new
    }
}

/// Each entry passed through `change`; `None` when all stay.
pub(super) fn edit_entries(
    entries: &[(Text, Tree)],
    mut change: impl FnMut(&Text, &Tree) -> Edit,
) -> Option<Tree> {
    let mut out = Entries::over(entries);
    for (at, (key, value)) in entries.iter().enumerate() {
        out.edit(at, change(key, value));
    }
    out.finish()
}

/// Each item passed through `change`, which answers with a new value or with `None`; `None` when all stay.
pub(super) fn edit_items(
    items: &[Tree],
    mut change: impl FnMut(usize, &Tree) -> Option<Tree>,
) -> Option<Tree> {
    let mut new: Option<Vec<Tree>> = None;
    for (index, item) in items.iter().enumerate() {
        if let Some(value) = change(index, item) {
            new.get_or_insert_with(|| items.to_vec())[index] = value;
        }
    }
    new.map(Tree::list)
}
