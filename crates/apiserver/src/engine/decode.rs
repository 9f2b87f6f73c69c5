//! From a body to an object of the expected kind: kind check, types, unknown and duplicate fields.

use muster_schema::node::View;
use muster_schema::{structure, table};
use muster_tree::Tree;

use super::Place;
use crate::registry::{group_version, inner_type};
use crate::request::{Body, FieldValidation, Twice, WriteOptions};
use crate::status::Status;

/// Kinds of the core group that are never stored and that the published schema leaves out.
const COMMON_KINDS: [&str; 3] = ["List", "Status", "WatchEvent"];

/// What a body should be.
pub(crate) struct Expected<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub view: View<'a>,
    pub custom: bool,
}

impl<'a> Expected<'a> {
    /// An object of the place's own kind.
    pub fn at(place: &'a Place) -> Self {
        let (resource, version) = (&place.resource, &place.resource.versions[place.version]);
        Self {
            group: &resource.group,
            version: &version.name,
            kind: &resource.kind,
            view: version.schema.view(),
            custom: resource.custom,
        }
    }
}

/// A body that fits the schema: pruned, and of the right kind. Wire form.
#[derive(Debug, Clone)]
pub(crate) struct Decoded {
    pub tree: Tree,
    pub warnings: Vec<String>,
}

/// Reads a body as an object of the expected kind.
pub(crate) fn decode(
    expected: &Expected<'_>,
    body: &Body,
    options: &WriteOptions,
) -> Result<Decoded, Status> {
    let tree = with_kind(expected, &body.tree)?;
    let unfit = |why: String| handled_as(expected.kind, expected.version, expected, &why);
    let (tree, unknown) = fit(expected, &tree).map_err(unfit)?;
    let twice = known_twice(&body.duplicates, &unknown);
    let warnings = match options.field_validation {
        FieldValidation::Strict => {
            let lines = twice.iter().any(|twice| matches!(twice, Twice::Line(..)));
            let twice = in_one(&twice);
            // The reader of YAML complains before anybody looks at fields.
            let wrong = if lines { [twice, unknown].concat() } else { [unknown, twice].concat() };
            judge(&wrong, options).map_err(unfit)?
        }
        FieldValidation::Warn => unknown.into_iter().chain(twice.iter().map(ToString::to_string)).collect(),
        FieldValidation::Ignore => Vec::new(),
    };
    Ok(Decoded { tree, warnings })
}

/// Checks types and drops unknown fields; the second answer tells of these.
pub(crate) fn fit(expected: &Expected<'_>, tree: &Tree) -> Result<(Tree, Vec<String>), String> {
    if !expected.custom {
        structure::check_types(expected.view, tree)?;
    }
    let mut unknown = Vec::new();
    let tree = structure::prune(expected.view, tree, &mut unknown);
    let tree = if expected.custom { without_empty_metadata(&tree) } else { tree };
    Ok((tree, unknown.iter().map(|path| unknown_text(path)).collect()))
}

/// What is empty in the metadata of a custom resource means nothing, as in that of any other.
fn without_empty_metadata(tree: &Tree) -> Tree {
    const KEYS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
    let empty = |key: &&str| tree.at(&["metadata", key]).is_some_and(Tree::is_empty);
    let gone: Vec<&str> = KEYS.into_iter().filter(empty).collect();
    gone.into_iter().fold(tree.clone(), |tree, key| tree.without(&["metadata", key]))
}

fn unknown_text(path: &str) -> String {
    format!("unknown field {path:?}")
}

/// Without the fields that are unknown anyway: those are told of once.
fn known_twice(twice: &[Twice], unknown: &[String]) -> Vec<Twice> {
    let known = |twice: &&Twice| match twice {
        Twice::Field(path) => {
            let ends = path.match_indices(['.', '[']).map(|(at, _)| at).chain([path.len()]);
            !ends.into_iter().any(|end| unknown.contains(&unknown_text(&path[..end])))
        }
        Twice::Line(..) => true,
    };
    twice.iter().filter(known).cloned().collect()
}

/// Keys that stood twice, as a refusal tells of them: those of YAML in one piece, with a line each.
pub(crate) fn in_one(twice: &[Twice]) -> Vec<String> {
    let is_line = |twice: &&Twice| matches!(twice, Twice::Line(..));
    let lines: Vec<String> = twice.iter().filter(is_line).map(|line| format!("\n  {line}")).collect();
    let fields = twice.iter().filter(|twice| !is_line(twice)).map(ToString::to_string);
    let lines = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{}", lines.concat()));
    lines.into_iter().chain(fields).collect()
}

/// What the mode of field validation makes of unknown and duplicate fields.
pub(crate) fn judge(wrong: &[String], options: &WriteOptions) -> Result<Vec<String>, String> {
    match options.field_validation {
        FieldValidation::Strict if !wrong.is_empty() => {
            Err(format!("strict decoding error: {}", wrong.join(", ")))
        }
        FieldValidation::Warn => Ok(wrong.to_vec()),
        _ => Ok(Vec::new()),
    }
}

fn handled_as(kind: &str, version: &str, expected: &Expected<'_>, why: &str) -> Status {
    let wanted = expected.kind;
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
}

/// The object with `kind` and `apiVersion`, which built-in kinds may leave out.
fn with_kind(expected: &Expected<'_>, tree: &Tree) -> Result<Tree, Status> {
    let want = group_version(expected.group, expected.version);
    let (kind, version) = (tree.str_at(&["kind"]), tree.str_at(&["apiVersion"]));
    if expected.custom && (kind.is_empty() || version.is_empty()) {
        let word = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(Status::bad_request(format!("Object '{word}' is missing in the body of the request")));
    }
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let version = if version.is_empty() { want.as_str() } else { version };
    if version == want.as_str() && kind == expected.kind {
        return Ok(with_missing(&with_missing(tree, "kind", expected.kind), "apiVersion", &want));
    }
    let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
    let is_sibling = kind == expected.kind && group == expected.group && is_known(group, short, kind);
    if is_sibling || (expected.custom && version != want.as_str()) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({want})"
        )));
    }
    Err(handled_as(kind, short, expected, &other_kind(expected, kind, version)))
}

/// Whether a patch leads to an object of the expected kind. What it leaves out is as expected.
pub(crate) fn check_kind(expected: &Expected<'_>, tree: &Tree) -> Result<(), String> {
    let want = group_version(expected.group, expected.version);
    let (kind, version) = (tree.str_at(&["kind"]), tree.str_at(&["apiVersion"]));
    let (kind_fits, version_fits) = (["", expected.kind].contains(&kind), ["", &want].contains(&version));
    if kind_fits && version_fits {
        return Ok(());
    }
    Err(other_kind(
        expected,
        if kind.is_empty() { expected.kind } else { kind },
        if version.is_empty() { &want } else { version },
    ))
}

/// The object with the expected kind, whatever it says.
pub(crate) fn of_kind(expected: &Expected<'_>, tree: &Tree) -> Tree {
    let set = |tree: &Tree, key: &str, text: &str| {
        if tree.str_at(&[key]) == text { tree.clone() } else { tree.with_key(key, Tree::from(text)) }
    };
    let tree = set(tree, "kind", expected.kind);
    set(&tree, "apiVersion", &group_version(expected.group, expected.version))
}

fn with_missing(tree: &Tree, key: &str, text: &str) -> Tree {
    if tree.str_at(&[key]).is_empty() { tree.with_key(key, Tree::from(text)) } else { tree.clone() }
}

/// Why an object of another kind than the path serves cannot be taken.
fn other_kind(expected: &Expected<'_>, kind: &str, version: &str) -> String {
    let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
    if expected.custom {
        "the kind does not match the expected one".to_owned()
    } else if is_known(group, short, kind) {
        let inner = inner_type(expected.group, expected.kind);
        format!("converting ({short}.{kind}) to ({inner}): unknown conversion")
    } else {
        unregistered(kind, version)
    }
}

/// Says that nobody knows this kind. The last word names a place in the source of the real server; clients show it
/// with the rest.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
}

/// Whether this is a built-in kind.
fn is_known(group: &str, version: &str, kind: &str) -> bool {
    let common = group.is_empty() && version == "v1" && COMMON_KINDS.contains(&kind);
    common || table::builtin().root(group, version, kind).is_some()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn another_kind_is_refused_in_the_words_of_the_wire() {
        let schema = table::builtin().root("", "v1", "ConfigMap").expect("ConfigMap");
        let expected =
            Expected { group: "", version: "v1", kind: "ConfigMap", view: schema.view(), custom: false };
        for (kind, version, want) in [
            ("Secret", "v1", "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
            ("Deployment", "apps/v1", "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"),
            (
                "Foo",
                "v1",
                "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
            ),
        ] {
            let body = tree!({"kind": kind, "apiVersion": version});
            assert_eq!(check_kind(&expected, &body), Err(want.to_owned()));
            let status = with_kind(&expected, &body).unwrap_err();
            let start = format!("{kind} in version \"v1\" cannot be handled as a ConfigMap: ");
            assert_eq!((status.code, status.message), (400, start + want));
        }
        assert_eq!(check_kind(&expected, &tree!({"kind": "ConfigMap"})), Ok(()));
        let named = tree!({"kind": "ConfigMap", "apiVersion": "v1"});
        assert_eq!(with_kind(&expected, &tree!({})).unwrap(), named);
        assert_eq!(of_kind(&expected, &tree!({"kind": "Pod"})), named);
    }

    #[test]
    fn what_is_unknown_is_not_told_of_twice() {
        let twice = |path: &str| Twice::Field(path.to_owned());
        let all =
            [twice("foo"), twice("data.k"), twice("bar.x"), twice("list[0].y"), Twice::Line(3, "k".into())];
        let unknown = [unknown_text("foo"), unknown_text("bar"), unknown_text("list[0]")];
        assert_eq!(known_twice(&all, &unknown), [twice("data.k"), Twice::Line(3, "k".into())]);
    }

    #[test]
    fn repeated_lines_of_yaml_are_one_complaint() {
        let twice = [Twice::Line(5, "name".into()), Twice::Line(8, "k".into())];
        let want = "yaml: unmarshal errors:\n  line 5: key \"name\" already set in map\n  line 8: key \"k\" already set in map";
        assert_eq!(in_one(&twice), [want]);
        assert_eq!(in_one(&[Twice::Field("a.b".into())]), ["duplicate field \"a.b\""]);
        assert!(in_one(&[]).is_empty());
    }
}
