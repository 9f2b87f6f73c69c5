//! Conflicts of an apply with the fields of other managers.

use std::fmt::Write as _;

use muster_tree::{Text, Tree};

use crate::fields;
use crate::object::Managed;

/// A field that an apply would change and that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns it.
    pub manager: Text,
    /// The manager owns the field by apply, otherwise by update.
    pub applied: bool,
    /// `apiVersion` of its write.
    pub api_version: Text,
    /// Subresource of its write; empty for the main resource.
    pub subresource: Text,
    /// Path of the field, for example `.spec.containers[name="a"].image`.
    pub path: String,
}

impl Conflict {
    /// The text of `details.causes[].message`.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner())
    }

    fn owner(&self) -> String {
        let mut text = format!("{:?}", self.manager.as_str());
        if !self.subresource.is_empty() {
            let _ = write!(text, " with subresource {:?}", self.subresource.as_str());
        }
        if !self.applied {
            let _ = write!(text, " using {}", self.api_version);
        }
        text
    }
}

/// The conflicts of a change with these managers, grouped by manager.
pub(super) fn find<'a>(others: impl Iterator<Item = &'a Managed>, changed: &Tree) -> Vec<Conflict> {
    let mut owners: Vec<&Managed> = others.collect();
    owners.sort_by(|a, b| {
        let key = |m: &Managed| (m.manager.clone(), !m.applied, m.api_version.clone(), m.subresource.clone());
        key(a).cmp(&key(b))
    });
    let conflicts = owners.into_iter().flat_map(|owner| {
        let paths = fields::paths(&fields::intersection(&owner.fields, changed));
        paths.into_iter().map(|path| Conflict {
            manager: owner.manager.clone(),
            applied: owner.applied,
            api_version: owner.api_version.clone(),
            subresource: owner.subresource.clone(),
            path,
        })
    });
    conflicts.collect()
}

/// The message of the 409 response.
#[must_use]
pub fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", one.message(), one.path);
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = String::new();
    for conflict in conflicts {
        let owner = conflict.owner();
        if owner != last {
            lines.push(format!("conflicts with {owner}:"));
            last = owner;
        }
        lines.push(format!("- {}", conflict.path));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
