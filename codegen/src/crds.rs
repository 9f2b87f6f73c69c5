//! `cargo xtask crds`: makes the definitions of our kinds from our tables of their fields.
//!
//! The tables name types of Kubernetes; here their fields take the place of the names. What a definition may not
//! hold (references, rules of strategic merge) is left out, and so are lists of allowed words and what is filled in: a
//! template is checked and filled in by the server that gets the Job, which may know more than we do.
//!
//! # Invariants
//!
//! - Same tables, same bytes: maps are sorted.
//! - An ordinary build never runs this; its results are checked in, and a test makes them anew.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_tree::{Tree, tree};

/// The results, from the workspace's root.
const JOBSETS: &str = "crates/jobset/src/crd.json";
const GANGS: &str = "crates/install/src/gangs";
const QUEUES: &str = "crates/queue/src/kinds/crds";
const TRAINING: &str = "crates/trainer/src/kinds/crds";
/// The schema table, from the workspace's root.
const TABLE: &str = "crates/schema/data/schema.json.lz4";

/// What is kept of a type of Kubernetes.
const KEPT: &[&str] = &[
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

/// What templates may say of their own metadata.
const METADATA: &[&str] = &["annotations", "finalizers", "labels", "name", "namespace"];

/// Types that begin with a reference by name and so belong to one owner as a whole, which their published schema does
/// not tell.
const REFERENCES: &[&str] = &[
    "ConfigMapEnvSource",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "SecretEnvSource",
    "SecretProjection",
];

/// Writes the definitions.
pub fn task(_: &[String]) -> Result<(), String> {
    for (result, text) in made()? {
        let path = root().join(result);
        fs::write(&path, text).map_err(|e| format!("writing {}: {e}", path.display()))?;
    }
    Ok(())
}

/// The definitions as they should be, one line each, with their files.
fn made() -> Result<Vec<(String, String)>, String> {
    let types = Types { components: components()? };
    sources().map(|(file, source)| Ok((file, types.expand(&source)?.to_json() + "\n"))).collect()
}

/// The definitions with types of Kubernetes still named, with their files.
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

/// The types that may be named.
struct Types {
    components: Tree,
}

impl Types {
    /// Spells out every type named below a tree.
    fn expand(&self, tree: &Tree) -> Result<Tree, String> {
        if let Some(name) = tree.get("$ref").and_then(Tree::as_str) {
            // What a table of ours adds to a type (rules, bounds) stays; published schemas were stripped of theirs before.
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

    /// A type of Kubernetes.
    fn named(&self, name: &str) -> Result<Tree, String> {
        if let Some(special) = special(name) {
            return Ok(special);
        }
        let component = self.components.get(name).ok_or_else(|| format!("no type {name} in the table"))?;
        if name.ends_with(".ObjectMeta") {
            let fields = component.get("properties").cloned().unwrap_or_default();
            // Nothing is made of it as it stands, so a name that is there twice does no harm.
            let plain = |field: &Tree| field.without_key("x-kubernetes-list-type");
            let fields =
                fields.map_entries(|key, field| METADATA.contains(&key.as_str()).then(|| plain(field)));
            return self.expand(&tree!({"type": "object", "properties": stripped_fields(&fields)}));
        }
        let made = self.expand(&stripped(component))?;
        let is_reference = name.rsplit('.').next().is_some_and(|word| REFERENCES.contains(&word));
        Ok(if is_reference { made.with_key("x-kubernetes-map-type", "atomic".into()) } else { made })
    }

    /// The keys of a list must be in every item: those that may be left out get what the type of the items says, or
    /// are empty. `source` is the list with that type still named.
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

/// Types whose JSON form their published schema does not tell.
fn special(name: &str) -> Option<Tree> {
    let name = name.strip_prefix("io.k8s.apimachinery.")?;
    let number_or_text =
        tree!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
    match name.rsplit('.').next()? {
        "Quantity" => Some(number_or_text.with_key("pattern", muster_api::definition::QUANTITY.into())),
        "IntOrString" => Some(number_or_text),
        "Time" | "MicroTime" => Some(tree!({"type": "string", "format": "date-time"})),
        "RawExtension" => Some(tree!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        _ => None,
    }
}

/// A published schema without what definitions may not hold.
fn stripped(schema: &Tree) -> Tree {
    schema.map_entries(|key, value| match key.as_str() {
        "$ref" => Some(value.clone()),
        "properties" => Some(stripped_fields(value)),
        "items" | "additionalProperties" => Some(stripped(value)),
        _ => kept(key, value),
    })
}

fn stripped_fields(fields: &Tree) -> Tree {
    fields.map_entries(|_, field| Some(stripped(field)))
}

fn kept(key: &str, value: &Tree) -> Option<Tree> {
    KEPT.contains(&key).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::{made, root, sources};

    /// Shows: 572-54.
    #[test]
    fn the_definitions_are_up_to_date() {
        for (file, text) in made().unwrap() {
            let there = std::fs::read_to_string(root().join(&file)).unwrap();
            assert!(there == text, "{file} is out of date: run `cargo xtask crds`");
        }
    }

    /// Fields without a description, by path. Types of Kubernetes count as one field each: their prose is not shipped.
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

    /// A server serves its own ObjectMeta in place of this field.
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

    /// What a schema says of each of its parts, by path; only these words are looked at.
    fn told(schema: &Tree, at: &str, word: &str, all: &mut Vec<String>) {
        all.extend(schema.get(word).map(|value| format!("{at} {}", value.to_json())));
        for (name, field) in schema.entries_at(&["properties"]) {
            told(field, &format!("{at}.{name}"), word, all);
        }
        for below in ["items", "additionalProperties"] {
            schema.get(below).iter().for_each(|it| told(it, &format!("{at}[]"), word, all));
        }
    }

    /// All of it below one part of the spec.
    fn below(part: &str, word: &str) -> Vec<String> {
        let definition = muster_jobset::crd::definition();
        let schema = &definition.items_at(&["spec", "versions"])[0];
        let fields = ["schema", "openAPIV3Schema", "properties", "spec", "properties", part];
        let mut all = Vec::new();
        told(schema.at(&fields).unwrap(), "", word, &mut all);
        all
    }

    #[test]
    fn of_templates_only_keys_of_lists_are_filled_in() {
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
    fn finalizers_of_templates_are_a_plain_list() {
        for part in ["replicatedJobs", "volumeClaimPolicies"] {
            let all = below(part, "x-kubernetes-list-type");
            assert!(!all.iter().any(|line| line.contains("finalizers")), "{all:#?}");
        }
    }

    #[test]
    fn references_by_name_have_one_owner() {
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
        assert!(!all.iter().any(|line| line == secret), "this one names its secret in a field of its own");
    }
}
