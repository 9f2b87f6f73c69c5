//! `cargo xtask crds`: generates our CRDs from our tables of fields.
//!
//! The tables reference Kubernetes types, which are expanded here. Keywords that a CRD must not have (references, strategic merge
//! directives) are removed, and so are enums and defaults of pod templates: the API server validates and defaults a template when the
//! Job is created, and may be newer than our schema.
//!
//! # Invariants
//!
//! - The output is deterministic: maps are sorted.
//! - A normal build does not run it; its output is checked in, and a test generates it again.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_tree::{Tree, tree};

/// Outputs, relative to the workspace.
const JOBSETS: &str = "crates/jobset/src/crd.json";
const GANGS: &str = "crates/install/src/gangs";
const QUEUES: &str = "crates/queue/src/kinds/crds";
const TRAINING: &str = "crates/trainer/src/kinds/crds";
/// Schema table, relative to the workspace.
const TABLE: &str = "crates/schema/data/schema.json.lz4";

/// Keywords of Kubernetes types that a CRD may have.
const ALLOWED_KEYWORDS: &[&str] = &[
    "additionalProperties",
    "format",
    "items",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Metadata fields of templates.
const METADATA: &[&str] = &["annotations", "finalizers", "labels", "name", "namespace"];

/// Types that embed a LocalObjectReference and are atomic maps, which their published schema does not state.
const REFERENCES: &[&str] = &[
    "ConfigMapEnvSource",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "SecretEnvSource",
    "SecretProjection",
];

/// Writes the CRDs.
pub fn task(_: &[String]) -> Result<(), String> {
    for (result, text) in generated()? {
        let path = root().join(result);
        fs::write(&path, text).map_err(|e| format!("writing {}: {e}", path.display()))?;
    }
    Ok(())
}

/// Generates the CRDs as single-line JSON, with their files.
fn generated() -> Result<Vec<(String, String)>, String> {
    let types = Types { components: components()? };
    sources().map(|(file, source)| Ok((file, types.expand(&source)?.to_json() + "\n"))).collect()
}

/// Returns the CRDs with unexpanded type references, with their files.
fn sources() -> impl Iterator<Item = (String, Tree)> {
    let gangs = muster_install::gangs::sources().into_iter();
    let gangs = gangs.map(|(file, source)| (format!("{GANGS}/{file}"), source));
    let queues = muster_queue::kinds::sources().into_iter();
    let queues = queues.map(|(file, source)| (format!("{QUEUES}/{file}"), source));
    let training = muster_trainer::kinds::sources().into_iter();
    let training = training.map(|(file, source)| (format!("{TRAINING}/{file}"), source));
    let jobsets = [(JOBSETS.to_owned(), muster_jobset::crd::source())].into_iter();
    jobsets.chain(gangs).chain(queues).chain(training)
}

fn components() -> Result<Tree, String> {
    let path = root().join(TABLE);
    let file = fs::File::open(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    let mut bytes = Vec::new();
    lz4_flex::frame::FrameDecoder::new(file).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    let table = Tree::parse(&bytes).map_err(|e| e.to_string())?;
    table.get("components").cloned().ok_or_else(|| format!("{} has no components", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Kubernetes types that tables may reference.
struct Types {
    components: Tree,
}

impl Types {
    /// Expands every type reference below a tree.
    fn expand(&self, tree: &Tree) -> Result<Tree, String> {
        if let Some(name) = tree.get("$ref").and_then(Tree::as_str) {
            // Rules and bounds that our table adds to a type are kept; those of published schemas were removed before.
            return Ok(self.named(name)?.merge(&tree.without_key("$ref")));
        }
        let entries = tree.entries().iter();
        let entries: Result<Vec<_>, String> =
            entries.map(|(key, below)| Ok((key.clone(), self.expand(below)?))).collect();
        match tree {
            Tree::Map(_) => Ok(self.with_keys(&Tree::map(entries?), tree)),
            Tree::List(_) => {
                let items: Result<Vec<_>, String> =
                    tree.items().iter().map(|item| self.expand(item)).collect();
                Ok(Tree::list(items?))
            }
            _ => Ok(tree.clone()),
        }
    }

    /// Expands a Kubernetes type.
    fn named(&self, name: &str) -> Result<Tree, String> {
        if let Some(special) = special(name) {
            return Ok(special);
        }
        let component = self.components.get(name).ok_or_else(|| format!("no type {name} in the table"))?;
        if name.ends_with(".ObjectMeta") {
            let fields = component.get("properties").cloned().unwrap_or_default();
            // Embedded metadata is not persisted as an object, so duplicate list items are harmless.
            let plain = |field: &Tree| field.without_key("x-kubernetes-list-type");
            let fields =
                fields.map_entries(|key, field| METADATA.contains(&key.as_str()).then(|| plain(field)));
            return self.expand(&tree!({"type": "object", "properties": stripped_fields(&fields)}));
        }
        let made = self.expand(&stripped(component))?;
        let is_reference = name.rsplit('.').next().is_some_and(|word| REFERENCES.contains(&word));
        Ok(if is_reference { made.with_key("x-kubernetes-map-type", "atomic".into()) } else { made })
    }

    /// Defaults list map keys that are not required, as structural schemas demand: to the default of the item type, or to "". `source` is
    /// the list with the unexpanded item type.
    fn with_keys(&self, list: &Tree, source: &Tree) -> Tree {
        let item = self.components.get(source.str_at(&["items", "$ref"])).unwrap_or(&Tree::Null);
        let mut list = list.clone();
        for key in list.items_at(&["x-kubernetes-list-map-keys"]).to_vec() {
            let Some(key) = key.as_str() else { continue };
            if list.at(&["items", "properties", key, "default"]).is_some() {
                continue;
            }
            if !list.items_at(&["items", "required"]).iter().any(|name| name.as_str() == Some(key)) {
                let default = item.at(&["properties", key, "default"]).cloned();
                let default = default.unwrap_or_else(|| "".into());
                list = list.with(&["items", "properties", key, "default"], default);
            }
        }
        list
    }
}

/// Returns the schema of types whose JSON form the published schema does not state.
fn special(name: &str) -> Option<Tree> {
    let name = name.strip_prefix("io.k8s.apimachinery.")?;
    let number_or_text =
        tree!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
    match name.rsplit('.').next()? {
        "Quantity" => Some(number_or_text.with_key("pattern", muster_api::crd_schema::QUANTITY.into())),
        "IntOrString" => Some(number_or_text),
        "Time" | "MicroTime" => Some(tree!({"type": "string", "format": "date-time"})),
        "RawExtension" => Some(tree!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        _ => None,
    }
}

/// Removes keywords that CRDs must not have.
fn stripped(schema: &Tree) -> Tree {
    schema.map_entries(|key, value| match key.as_str() {
        "$ref" => Some(value.clone()),
        "properties" => Some(stripped_fields(value)),
        "items" | "additionalProperties" => Some(stripped(value)),
        _ => allowed_keyword(key, value),
    })
}

fn stripped_fields(fields: &Tree) -> Tree {
    fields.map_entries(|_, field| Some(stripped(field)))
}

fn allowed_keyword(key: &str, value: &Tree) -> Option<Tree> {
    ALLOWED_KEYWORDS.contains(&key).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::{generated, root, sources};

    /// Shows: 572-54.
    #[test]
    fn the_crds_are_up_to_date() {
        for (file, text) in generated().unwrap() {
            let there = std::fs::read_to_string(root().join(&file)).unwrap();
            assert!(there == text, "{file} is out of date: run `cargo xtask crds`");
        }
    }

    /// Collects the paths of fields without a description. Kubernetes types count as one field each: their descriptions are not shipped.
    fn undescribed(schema: &Tree, at: &str, all: &mut Vec<String>) {
        for (name, field) in schema.entries_at(&["properties"]) {
            let path = format!("{at}.{name}");
            if field.str_at(&["description"]).is_empty() {
                all.push(path.clone());
            }
            undescribed(field, &path, all);
        }
        for below in ["items", "additionalProperties"] {
            schema.get(below).iter().for_each(|it| undescribed(it, &format!("{at}[]"), all));
        }
    }

    /// The API server replaces the schema of this field by its own ObjectMeta.
    const SERVED_BY_KUBERNETES: &str = ".metadata";

    #[test]
    fn every_field_of_every_kind_has_a_description() {
        let schema =
            tree!({"properties": {"a": {"items": {"properties": {"b": {}, "c": {"description": "C."}}}}}});
        let mut missing = Vec::new();
        undescribed(&schema, "", &mut missing);
        assert_eq!(missing, [".a", ".a[].b"], "fields without one are found");

        let mut missing = Vec::new();
        for (file, source) in sources() {
            for version in source.items_at(&["spec", "versions"]) {
                let schema = version.at(&["schema", "openAPIV3Schema"]).unwrap();
                let at = format!("{file} {}", version.str_at(&["name"]));
                if schema.str_at(&["description"]).is_empty() {
                    missing.push(at.clone());
                }
                let mut found = Vec::new();
                undescribed(schema, "", &mut found);
                assert!(found.iter().any(|path| path == SERVED_BY_KUBERNETES), "{at} has no metadata");
                let found = found.iter().filter(|path| *path != SERVED_BY_KUBERNETES);
                missing.extend(found.map(|path| format!("{at} {path}")));
            }
        }
        assert!(missing.is_empty(), "add `.about(…)` to the tables of fields:\n{}", missing.join("\n"));
    }

    /// Collects the values of a keyword in a schema, by path.
    fn keyword_values(schema: &Tree, at: &str, word: &str, all: &mut Vec<String>) {
        all.extend(schema.get(word).map(|value| format!("{at} {}", value.to_json())));
        for (name, field) in schema.entries_at(&["properties"]) {
            keyword_values(field, &format!("{at}.{name}"), word, all);
        }
        for below in ["items", "additionalProperties"] {
            schema.get(below).iter().for_each(|it| keyword_values(it, &format!("{at}[]"), word, all));
        }
    }

    /// Collects the values of a keyword below a field of the JobSet spec.
    fn below(part: &str, word: &str) -> Vec<String> {
        let definition = muster_jobset::crd::manifest();
        let schema = &definition.items_at(&["spec", "versions"])[0];
        let fields = ["schema", "openAPIV3Schema", "properties", "spec", "properties", part];
        let mut all = Vec::new();
        keyword_values(schema.at(&fields).unwrap(), "", word, &mut all);
        all
    }

    #[test]
    fn in_templates_only_list_map_keys_are_defaulted() {
        let inside = |line: &&String| !line.starts_with("[].template.spec.template.spec.");
        let all = below("replicatedJobs", "default");
        let pods: Vec<&str> = all.iter().filter(|it| !inside(it)).map(|it| &it[31..]).collect();
        let ports = |list: &str| format!("{list}[].ports[].protocol \"TCP\"");
        let [first, second, third] = ["containers", "ephemeralContainers", "initContainers"].map(ports);
        assert_eq!(pods, [&first, &second, "imagePullSecrets[].name \"\"", &third]);
        assert_eq!(
            all.iter().filter(inside).collect::<Vec<_>>(),
            [
                "[].groupName \"default\"",
                "[].replicas 1",
                "[].resourceClaimTemplates[].deletionPolicy \"OnJobCompletion\""
            ]
        );
    }

    /// Shows: 572-05.
    #[test]
    fn a_policy_without_retention_is_stored_as_delete() {
        let want =
            ["[].retentionPolicy {\"whenDeleted\":\"Delete\"}", "[].retentionPolicy.whenDeleted \"Delete\""];
        assert_eq!(below("volumeClaimPolicies", "default"), want);
    }

    #[test]
    fn finalizers_of_templates_have_no_list_type() {
        for part in ["replicatedJobs", "volumeClaimPolicies"] {
            let all = below(part, "x-kubernetes-list-type");
            assert!(!all.iter().any(|line| line.contains("finalizers")), "{all:#?}");
        }
    }

    #[test]
    fn local_object_references_are_atomic() {
        let all = below("replicatedJobs", "x-kubernetes-map-type");
        for path in [
            "containers[].envFrom[].configMapRef",
            "initContainers[].envFrom[].secretRef",
            "volumes[].configMap",
            "volumes[].projected.sources[].configMap",
            "volumes[].projected.sources[].secret",
        ] {
            let line = format!("[].template.spec.template.spec.{path} \"atomic\"");
            assert!(all.contains(&line), "{path}");
        }
        let secret = "[].template.spec.template.spec.volumes[].secret \"atomic\"";
        assert!(!all.iter().any(|line| line == secret), "a secret volume has the name in a field of its own");
    }
}
