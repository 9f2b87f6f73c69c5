//! Decodes a body as an object of the expected kind: checks kind and types, prunes unknown fields, reports
//! duplicates.

use muster_schema::node::View;
use muster_schema::{structure, table};
use muster_tree::Tree;

use super::VersionedResource;
use crate::registry::{group_version, inner_type};
use crate::request::{DuplicateKey, FieldValidation, RequestBody, WriteOptions};
use crate::status::Status;

/// Core kinds that are never stored and missing in the published schema; Go's scheme knows them.
const COMMON_KINDS: [&str; 3] = ["List", "Status", "WatchEvent"];

/// The kind that an endpoint accepts.
pub(crate) struct ExpectedKind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub view: View<'a>,
    pub custom: bool,
}

impl<'a> ExpectedKind<'a> {
    /// The resource's own kind.
    pub fn at(place: &'a VersionedResource) -> Self {
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

/// A decoded body in wire form: pruned, and of the right kind.
#[derive(Debug, Clone)]
pub(crate) struct DecodedBody {
    pub tree: Tree,
    pub warnings: Vec<String>,
}

/// Decodes a body and applies `fieldValidation`.
pub(crate) fn decode(
    expected: &ExpectedKind<'_>,
    body: &RequestBody,
    options: &WriteOptions,
) -> Result<DecodedBody, Status> {
    let tree = with_kind(expected, &body.tree)?;
    let unfit = |why: String| handled_as(expected.kind, expected.version, expected, &why);
    let (tree, unknown) = check_and_prune(expected, &tree).map_err(unfit)?;
    let twice = duplicates_in_known_fields(&body.duplicates, &unknown);
    let warnings = match options.field_validation {
        FieldValidation::Strict => {
            let lines = twice.iter().any(|twice| matches!(twice, DuplicateKey::Line(..)));
            let twice = duplicate_messages(&twice);
            // YAML duplicates are found before decoding, so their error comes before unknown fields.
            let wrong = if lines { [twice, unknown].concat() } else { [unknown, twice].concat() };
            apply_field_validation(&wrong, options).map_err(unfit)?
        }
        FieldValidation::Warn => unknown.into_iter().chain(twice.iter().map(ToString::to_string)).collect(),
        FieldValidation::Ignore => Vec::new(),
    };
    Ok(DecodedBody { tree, warnings })
}

/// Checks types and prunes unknown fields; also returns one message per unknown field.
pub(crate) fn check_and_prune(
    expected: &ExpectedKind<'_>,
    tree: &Tree,
) -> Result<(Tree, Vec<String>), String> {
    if !expected.custom {
        structure::check_types(expected.view, tree)?;
    }
    let mut unknown = Vec::new();
    let tree = structure::prune(expected.view, tree, &mut unknown);
    let tree = if expected.custom { without_empty_metadata(&tree) } else { tree };
    Ok((tree, unknown.iter().map(|path| unknown_text(path)).collect()))
}

/// Drops empty metadata maps and lists of a custom resource, as Go's typed ObjectMeta does.
fn without_empty_metadata(tree: &Tree) -> Tree {
    const KEYS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];
    let empty = |key: &&str| tree.at(&["metadata", key]).is_some_and(Tree::is_empty);
    let gone: Vec<&str> = KEYS.into_iter().filter(empty).collect();
    gone.into_iter().fold(tree.clone(), |tree, key| tree.without(&["metadata", key]))
}

fn unknown_text(path: &str) -> String {
    format!("unknown field {path:?}")
}

/// Drops duplicates inside unknown fields: those are reported once.
fn duplicates_in_known_fields(twice: &[DuplicateKey], unknown: &[String]) -> Vec<DuplicateKey> {
    let known = |twice: &&DuplicateKey| match twice {
        DuplicateKey::Field(path) => {
            let ends = path.match_indices(['.', '[']).map(|(at, _)| at).chain([path.len()]);
            !ends.into_iter().any(|end| unknown.contains(&unknown_text(&path[..end])))
        }
        DuplicateKey::Line(..) => true,
    };
    twice.iter().filter(known).cloned().collect()
}

/// Duplicate keys as strict decoding reports them: those of YAML as one error with a line each.
pub(crate) fn duplicate_messages(twice: &[DuplicateKey]) -> Vec<String> {
    let is_line = |twice: &&DuplicateKey| matches!(twice, DuplicateKey::Line(..));
    let lines: Vec<String> = twice.iter().filter(is_line).map(|line| format!("\n  {line}")).collect();
    let fields = twice.iter().filter(|twice| !is_line(twice)).map(ToString::to_string);
    let lines = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{}", lines.concat()));
    lines.into_iter().chain(fields).collect()
}

/// Applies `fieldValidation`: an error when strict, else warnings.
pub(crate) fn apply_field_validation(
    wrong: &[String],
    options: &WriteOptions,
) -> Result<Vec<String>, String> {
    match options.field_validation {
        FieldValidation::Strict if !wrong.is_empty() => {
            Err(format!("strict decoding error: {}", wrong.join(", ")))
        }
        FieldValidation::Warn => Ok(wrong.to_vec()),
        _ => Ok(Vec::new()),
    }
}

fn handled_as(kind: &str, version: &str, expected: &ExpectedKind<'_>, why: &str) -> Status {
    let wanted = expected.kind;
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
}

/// Defaults `kind` and `apiVersion`, which built-in kinds may leave out, and rejects other kinds.
fn with_kind(expected: &ExpectedKind<'_>, tree: &Tree) -> Result<Tree, Status> {
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
    // A known version of the same kind gets a message about versions, anything else one about kinds.
    let is_sibling = kind == expected.kind && group == expected.group && is_known(group, short, kind);
    if is_sibling || (expected.custom && version != want.as_str()) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({want})"
        )));
    }
    Err(handled_as(kind, short, expected, &other_kind(expected, kind, version)))
}

/// Checks the kind of a patched object. Missing `kind` and `apiVersion` are accepted.
pub(crate) fn check_kind(expected: &ExpectedKind<'_>, tree: &Tree) -> Result<(), String> {
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

/// Overwrites `kind` and `apiVersion`.
pub(crate) fn with_expected_kind(expected: &ExpectedKind<'_>, tree: &Tree) -> Tree {
    let set = |tree: &Tree, key: &str, text: &str| {
        if tree.str_at(&[key]) == text { tree.clone() } else { tree.with_key(key, Tree::from(text)) }
    };
    let tree = set(tree, "kind", expected.kind);
    set(&tree, "apiVersion", &group_version(expected.group, expected.version))
}

fn with_missing(tree: &Tree, key: &str, text: &str) -> Tree {
    if tree.str_at(&[key]).is_empty() { tree.with_key(key, Tree::from(text)) } else { tree.clone() }
}

/// The error for an object of another kind.
fn other_kind(expected: &ExpectedKind<'_>, kind: &str, version: &str) -> String {
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

/// The error for an unregistered kind. The last word is a position in kube-apiserver's source; clients show it.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
}

fn is_known(group: &str, version: &str, kind: &str) -> bool {
    let common = group.is_empty() && version == "v1" && COMMON_KINDS.contains(&kind);
    common || table::builtin().root(group, version, kind).is_some()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn another_kind_is_rejected_with_upstream_messages() {
        let schema = table::builtin().root("", "v1", "ConfigMap").expect("ConfigMap");
        let expected =
            ExpectedKind { group: "", version: "v1", kind: "ConfigMap", view: schema.view(), custom: false };
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
        assert_eq!(with_expected_kind(&expected, &tree!({"kind": "Pod"})), named);
    }

    #[test]
    fn duplicates_inside_unknown_fields_are_not_reported() {
        let twice = |path: &str| DuplicateKey::Field(path.to_owned());
        let all = [
            twice("foo"),
            twice("data.k"),
            twice("bar.x"),
            twice("list[0].y"),
            DuplicateKey::Line(3, "k".into()),
        ];
        let unknown = [unknown_text("foo"), unknown_text("bar"), unknown_text("list[0]")];
        assert_eq!(
            duplicates_in_known_fields(&all, &unknown),
            [twice("data.k"), DuplicateKey::Line(3, "k".into())]
        );
    }

    #[test]
    fn duplicate_yaml_keys_are_one_error() {
        let twice = [DuplicateKey::Line(5, "name".into()), DuplicateKey::Line(8, "k".into())];
        let want = "yaml: unmarshal errors:\n  line 5: key \"name\" already set in map\n  line 8: key \"k\" already set in map";
        assert_eq!(duplicate_messages(&twice), [want]);
        assert_eq!(duplicate_messages(&[DuplicateKey::Field("a.b".into())]), ["duplicate field \"a.b\""]);
        assert!(duplicate_messages(&[]).is_empty());
    }
}
