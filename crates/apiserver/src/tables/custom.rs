//! The columns of custom resources: the object's name, then what the definition names by JSON path.

use muster_api::time::Time;
use muster_tree::Tree;

use super::age;
use super::cells::plain;
use super::json_path::Path;
use super::kinds::definition;
use crate::registry::{Column, Version};

/// The columns of one version, their paths parsed.
pub(super) struct Columns {
    columns: Vec<(Column, Option<Path>)>,
}

impl Columns {
    /// The version's columns; an age where it declares none.
    pub fn of(version: &Version) -> Columns {
        let declared = if version.columns.is_empty() { vec![age_column()] } else { version.columns.clone() };
        Columns { columns: declared.into_iter().map(|c| (c.clone(), Path::parse(&c.path))).collect() }
    }

    /// `columnDefinitions`.
    pub fn definitions(&self) -> Tree {
        let name = definition("Name", "string", "name", "", 0);
        let rest = self.columns.iter().map(|(column, _)| {
            let said = &column.description;
            let said = if said.is_empty() { format!("from {}", column.path) } else { said.to_string() };
            definition(&column.name, &column.kind, &column.format, &said, column.priority)
        });
        Tree::list(std::iter::once(name).chain(rest))
    }

    /// The cells of one object.
    pub fn cells(&self, object: &Tree, now: Time) -> Vec<Tree> {
        let name = Tree::from(object.text_at(&["metadata", "name"]));
        let rest = self.columns.iter().map(|(column, path)| {
            let found = path.as_ref().and_then(|path| path.find(object).first().copied());
            found.map_or(Tree::Null, |value| cell(&column.kind, value, now))
        });
        std::iter::once(name).chain(rest).collect()
    }
}

fn age_column() -> Column {
    Column {
        name: "Age".into(),
        kind: "date".into(),
        format: "".into(),
        description: "".into(),
        priority: 0,
        path: ".metadata.creationTimestamp".into(),
    }
}

/// A value as its column's type asks; nothing when it is of another type.
#[expect(clippy::cast_possible_truncation, reason = "a whole-number column cuts fractions off")]
fn cell(kind: &str, value: &Tree, now: Time) -> Tree {
    match (kind, value) {
        (_, Tree::Null) => Tree::Null,
        ("string", _) => Tree::from(plain(value)),
        ("integer", Tree::Float(n)) => Tree::Int(*n as i64),
        ("integer", Tree::Int(_))
        | ("number", Tree::Int(_) | Tree::Float(_))
        | ("boolean", Tree::Bool(_)) => value.clone(),
        ("date", Tree::Text(text)) => match Time::parse(text) {
            Some(then) => Tree::from(age::span(then, now)),
            None => Tree::from("<invalid>"),
        },
        _ => Tree::Null,
    }
}
