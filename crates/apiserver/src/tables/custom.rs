//! Columns of custom resources: the name, then the printer columns of the CRD.

use muster_api::time::Time;
use muster_tree::Tree;

use super::age;
use super::cells::plain;
use super::json_path::JsonPath;
use super::kinds::definition;
use crate::registry::{ApiVersion, Column};

/// The columns of one version with parsed paths.
pub(super) struct Columns {
    columns: Vec<(Column, Option<JsonPath>)>,
}

impl Columns {
    /// The printer columns; without any, the age.
    pub fn of(version: &ApiVersion) -> Columns {
        let declared = if version.columns.is_empty() { vec![age_column()] } else { version.columns.clone() };
        Columns { columns: declared.into_iter().map(|c| (c.clone(), JsonPath::parse(&c.path))).collect() }
    }

    pub fn definitions(&self) -> Tree {
        let name = definition("Name", "string", "name", "", 0);
        let rest = self.columns.iter().map(|(column, _)| {
            let said = &column.description;
            let said = if said.is_empty() { format!("from {}", column.path) } else { said.to_string() };
            definition(&column.name, &column.kind, &column.format, &said, column.priority)
        });
        Tree::list(std::iter::once(name).chain(rest))
    }

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

/// Renders a value by the column type; empty for other types.
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
