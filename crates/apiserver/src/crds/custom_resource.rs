//! Builds the resource of a CRD.

use std::sync::Arc;

use muster_schema::crd;
use muster_schema::error::{FieldError, Problem};
use muster_schema::{structure, validate};
use muster_tree::{Text, Tree};

use super::schema_cache::{self, CompiledSchema};
use super::{is_true, scale_check};
use crate::engine::ConversionFn;
use crate::kinds::{FieldErrors, GenerationRule, ResourceStrategy, with_api_version};
use crate::registry::{ApiVersion, Column, Resource, ServedSubresource};

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The strategy of custom resources.
#[derive(Debug)]
struct Custom {
    /// The CRD spec it was built from.
    made_of: Tree,
    /// Whether the CRD is terminating.
    dying: bool,
    has_status: bool,
    schemas: Vec<CompiledSchema>,
    /// Scale paths of each version.
    scales: Vec<Option<(Text, Text, Text)>>,
    /// Converts between versions that differ in more than `apiVersion`.
    convert: Option<ConversionFn>,
}

impl Custom {
    fn converted(&self, tree: &Tree, api_version: &Text) -> Tree {
        match self.convert.filter(|_| tree.str_at(&["apiVersion"]) != api_version) {
            Some(convert) => with_api_version(&convert(tree, api_version), api_version),
            None => with_api_version(tree, api_version),
        }
    }
}

impl ResourceStrategy for Custom {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn rejects_creates(&self) -> bool {
        self.dying
    }

    fn generation(&self) -> GenerationRule {
        if self.has_status { GenerationRule::AllButStatus } else { GenerationRule::AllButMeta }
    }

    fn status_keeps_metadata(&self) -> bool {
        true
    }

    fn validate_custom(&self, version: usize, new: &Tree, old: Option<&Tree>, errors: &mut FieldErrors) {
        let CompiledSchema { schema, rules } = &self.schemas[version];
        errors.extend(validate::validate(schema.view(), new, old));
        if let Some(paths) = &self.scales[version] {
            scale_check::check(new, paths, errors);
        }
        // CEL rules assume the schema's types: run them only on objects that match it.
        if !errors.iter().any(is_blocking) {
            errors.extend(rules.check(new, old));
        } else if !rules.is_empty() {
            errors.push(FieldError::invalid("<nil>", Tree::Null, NOT_CHECKED));
        }
    }

    fn prune_for_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        if version == resource.storage_version {
            return tree.clone();
        }
        let stored = &resource.versions[resource.storage_version].schema;
        structure::prune(stored.view(), tree, &mut Vec::new())
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        // Defaults of this version apply on read, too, as in kube-apiserver.
        let tree = self.converted(tree, &resource.api_version(version));
        structure::default(resource.versions[version].schema.view(), &tree)
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        self.converted(tree, &resource.storage_api_version())
    }

    fn crd_spec(&self) -> Option<(&Tree, bool)> {
        Some((&self.made_of, self.dying))
    }
}

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

fn is_blocking(error: &FieldError) -> bool {
    use Problem::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.problem, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}

/// Whether a resource was built from this CRD state.
pub(super) fn is_made_of(resource: &Resource, definition: &Tree) -> bool {
    let Some((spec, dying)) = resource.strategy.crd_spec() else {
        return false;
    };
    definition.get("spec") == Some(spec) && is_true(definition, "Terminating") == dying
}

/// Builds the resource; `None` when the schema does not compile, which validation has rejected.
pub(super) fn resource(definition: &Tree, convert: Option<ConversionFn>) -> Option<Resource> {
    let spec = definition.get("spec")?;
    let names = definition.at(&["status", "acceptedNames"])?;
    let listed = spec.items_at(&["versions"]);
    let versions: Option<Vec<ApiVersion>> =
        listed.iter().map(|version| self::version(spec, version)).collect();
    let versions = sorted(versions?, listed);
    let (versions, storage): (Vec<ApiVersion>, Vec<bool>) = versions.into_iter().unzip();
    let (group, plural) = (spec.text_at(&["group"]), spec.text_at(&["names", "plural"]));
    let compiled = |version: &ApiVersion| {
        let listed = listed.iter().find(|it| it.str_at(&["name"]) == version.name)?;
        schema(listed)
    };
    let strategy = Custom {
        made_of: spec.clone(),
        dying: is_true(definition, "Terminating"),
        has_status: versions.iter().any(|v| v.subresources.iter().any(|s| s.name == "status")),
        scales: versions.iter().map(scale_paths).collect(),
        schemas: versions.iter().map(compiled).collect::<Option<Vec<_>>>()?,
        convert,
    };
    Some(Resource {
        storage: Text::from(format!("{plural}.{group}")),
        group,
        plural,
        singular: names.text_at(&["singular"]),
        kind: names.text_at(&["kind"]),
        list_kind: names.text_at(&["listKind"]),
        short_names: texts(names.items_at(&["shortNames"])),
        categories: texts(names.items_at(&["categories"])),
        namespaced: spec.str_at(&["scope"]) == "Namespaced",
        storage_version: storage.iter().position(|is| *is).unwrap_or(0),
        versions,
        custom: true,
        strategy: Arc::new(strategy),
    })
}

fn texts(items: &[Tree]) -> Vec<Text> {
    items.iter().filter_map(Tree::as_text).cloned().collect()
}

/// The versions in order of preference, each with its storage flag.
fn sorted(versions: Vec<ApiVersion>, listed: &[Tree]) -> Vec<(ApiVersion, bool)> {
    let stored = listed.iter().map(|version| version.bool_at(&["storage"]) == Some(true));
    let mut all: Vec<(ApiVersion, bool)> = versions.into_iter().zip(stored).collect();
    all.sort_by_key(|(version, _)| preference(&version.name));
    all
}

/// Kube-aware version priority: stable before beta before alpha, newer before older, anything else last by name.
fn preference(name: &str) -> (u8, std::cmp::Reverse<(u32, u32)>, String) {
    let parsed = name.strip_prefix('v').and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..end].parse().ok()?;
        let tail = &rest[end..];
        let (rank, minor) = match (tail, tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            ("", _, _) => (0, "0"),
            (_, Some(minor), _) => (1, minor),
            (_, _, Some(minor)) => (2, minor),
            _ => return None,
        };
        Some((rank, major, minor.parse().ok()?))
    });
    match parsed {
        Some((rank, major, minor)) => (rank, std::cmp::Reverse((major, minor)), String::new()),
        None => (3, std::cmp::Reverse((0, 0)), name.to_owned()),
    }
}

fn schema(version: &Tree) -> Option<CompiledSchema> {
    schema_cache::at(crd::BASE, version.at(&["schema", "openAPIV3Schema"])?).ok()
}

fn version(spec: &Tree, version: &Tree) -> Option<ApiVersion> {
    let name = version.text_at(&["name"]);
    let deprecated = version.bool_at(&["deprecated"]) == Some(true);
    let warning = version.text_at(&["deprecationWarning"]);
    Some(ApiVersion {
        served: version.bool_at(&["served"]) == Some(true),
        schema: schema(version)?.schema,
        verbs: VERBS.iter().map(|verb| Text::from(*verb)).collect(),
        subresources: subresources(spec, version, &name),
        columns: version.items_at(&["additionalPrinterColumns"]).iter().map(column).collect(),
        selectable_fields: version
            .items_at(&["selectableFields"])
            .iter()
            .map(|f| f.text_at(&["jsonPath"]))
            .collect(),
        deprecation: match (deprecated, warning.is_empty()) {
            (false, _) => Text::new(),
            (true, false) => warning,
            (true, true) => {
                let (group, kind) = (spec.str_at(&["group"]), spec.str_at(&["names", "kind"]));
                let instead = successor(spec, &name)
                    .map_or_else(String::new, |newer| format!("; use {group}/{newer} {kind}"));
                Text::from(format!("{group}/{name} {kind} is deprecated{instead}"))
            }
        },
        name,
    })
}

/// The version that replaces a deprecated one.
fn successor(spec: &Tree, name: &str) -> Option<Text> {
    let versions = spec.items_at(&["versions"]).iter();
    let good = versions
        .filter(|v| v.bool_at(&["served"]) == Some(true) && v.bool_at(&["deprecated"]) != Some(true))
        .map(|v| v.text_at(&["name"]));
    // Only a version that is preferred to this one is a successor.
    good.filter(|other| preference(other) < preference(name)).min_by_key(|other| preference(other))
}

fn subresources(spec: &Tree, version: &Tree, name: &Text) -> Vec<ServedSubresource> {
    let verbs = || ["get", "patch", "update"].iter().map(|verb| Text::from(*verb)).collect();
    let mut all = Vec::new();
    if version.at(&["subresources", "status"]).is_some() {
        let own = (spec.text_at(&["group"]), name.clone(), spec.text_at(&["names", "kind"]));
        all.push(ServedSubresource {
            name: Text::from("status"),
            response_kind: own,
            verbs: verbs(),
            scale_paths: None,
        });
    }
    if let Some(scale) = version.at(&["subresources", "scale"]) {
        let path = |key: &str| scale.text_at(&[key]);
        let paths = (path("specReplicasPath"), path("statusReplicasPath"), path("labelSelectorPath"));
        let kind = (Text::from("autoscaling"), Text::from("v1"), Text::from("Scale"));
        all.push(ServedSubresource {
            name: Text::from("scale"),
            response_kind: kind,
            verbs: verbs(),
            scale_paths: Some(paths),
        });
    }
    all
}

fn scale_paths(version: &ApiVersion) -> Option<(Text, Text, Text)> {
    version.subresources.iter().find_map(|sub| sub.scale_paths.clone())
}

fn column(column: &Tree) -> Column {
    Column {
        name: column.text_at(&["name"]),
        kind: column.text_at(&["type"]),
        format: column.text_at(&["format"]),
        description: column.text_at(&["description"]),
        priority: column.int_at(&["priority"]).unwrap_or(0),
        path: column.text_at(&["jsonPath"]),
    }
}

#[cfg(test)]
mod tests {
    use super::preference;

    #[test]
    fn newer_and_stabler_versions_come_first() {
        let mut names = ["v1alpha1", "v10", "foo", "v2", "v1beta2", "v11beta1", "v1"];
        names.sort_by_key(|name| preference(name));
        assert_eq!(names, ["v10", "v2", "v1", "v11beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
