//! Static defaults from the overlay.
//!
//! A line `[component]` opens a section (several in a row open it for all of them), a line `field = JSON` gives
//! a default, `field =` takes one away, `#` begins a comment. A dotted path reaches into a field of the component
//! without touching the other places where that field's type stands.

use muster_tree::Tree;

use super::build::Built;
use crate::node::{NodeId, Shape};

/// Puts the defaults of `text` into the nodes.
pub(super) fn put(built: &mut Built, text: &str) -> Result<(), String> {
    let mut sections: Vec<&str> = Vec::new();
    let mut was_header = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if !was_header {
                sections.clear();
            }
            sections.push(name);
            was_header = true;
            continue;
        }
        was_header = false;
        let (field, value) = parse(line).map_err(|problem| format!("line {}: {problem}", at + 1))?;
        for section in &sections {
            set(built, section, field, value.as_ref()).map_err(|e| format!("line {}: {e}", at + 1))?;
        }
    }
    Ok(())
}

fn parse(line: &str) -> Result<(&str, Option<Tree>), String> {
    let (field, value) = line.split_once('=').ok_or("neither a section nor `field = value`")?;
    let value = match value.trim() {
        "" => None,
        json => Some(Tree::parse(json.as_bytes()).map_err(|e| format!("{json}: {e}"))?),
    };
    Ok((field.trim(), value))
}

/// Sets the default at a path below a component, in the component itself and in its variants.
fn set(built: &mut Built, component: &str, path: &str, value: Option<&Tree>) -> Result<(), String> {
    let found = built.components.binary_search_by(|c| c.name.as_str().cmp(component));
    let at = u32::try_from(found.map_err(|_| format!("no component {component}"))?).unwrap_or(u32::MAX);
    let owners: Vec<NodeId> = built.named.iter().filter(|(_, of)| **of == at).map(|(id, _)| *id).collect();
    for owner in owners {
        set_below(built, owner, path, value).ok_or_else(|| format!("{component} has no field {path}"))?;
    }
    Ok(())
}

/// Gives the last field of `path` a node of its own with this default, and those on the way one each too. Lists
/// are entered without naming them.
fn set_below(built: &mut Built, owner: NodeId, path: &str, value: Option<&Tree>) -> Option<()> {
    if let Shape::List(item) = built.schema.nodes[owner.0 as usize].shape {
        let own = built.vary(item, |_| ());
        built.schema.nodes[owner.0 as usize].shape = Shape::List(own);
        return set_below(built, own, path, value);
    }
    let (field, rest) = path.split_once('.').map_or((path, None), |(field, rest)| (field, Some(rest)));
    let Shape::Fields(fields) = &built.schema.nodes[owner.0 as usize].shape else {
        return None;
    };
    let at = fields.binary_search_by(|f| f.name.as_str().cmp(field)).ok()?;
    let below = fields[at].node;
    let own = match rest {
        None => built.vary(below, |node| node.default = value.cloned()),
        Some(rest) => {
            let own = built.vary(below, |_| ());
            set_below(built, own, rest, value)?;
            own
        }
    };
    if let Shape::Fields(fields) = &mut built.schema.nodes[owner.0 as usize].shape {
        fields[at].node = own;
    }
    Some(())
}
