//! Selection of list and watch requests: namespace, name, labels and fields.

use muster_schema::selector::{Fields, Labels};
use muster_store::StoredObject;
use muster_tree::{Text, Tree};

use super::VersionedResource;
use crate::request::{ListOptions, ResourcePath};
use crate::status::Status;

/// Parsed selectors of one request.
#[derive(Debug, Clone)]
pub(crate) struct ListSelection {
    place: VersionedResource,
    namespace: Text,
    name: Text,
    labels: Labels,
    fields: Fields,
}

impl ListSelection {
    /// Parses label and field selectors.
    pub fn parse(
        place: &VersionedResource,
        target: &ResourcePath,
        options: &ListOptions,
    ) -> Result<ListSelection, Status> {
        let labels = Labels::parse(&options.label_selector).map_err(Status::bad_request)?;
        let fields = Fields::parse(&options.field_selector).map_err(Status::bad_request)?;
        fields.terms().iter().try_for_each(|term| known_field(place, &term.field))?;
        let (namespace, name) = (target.namespace.clone(), target.name.clone());
        Ok(ListSelection { place: place.clone(), namespace, name, labels, fields })
    }

    /// Whether a label or field selector is set.
    pub fn is_filtered(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The only namespace that can match, if there is just one.
    pub fn namespace(&self) -> Option<Text> {
        if !self.place.resource.namespaced {
            return None;
        }
        if self.namespace.is_empty() {
            return self.fields.exact("metadata.namespace").map(Text::from);
        }
        Some(self.namespace.clone())
    }

    /// The only name that can match, if there is just one.
    pub fn name(&self) -> Option<Text> {
        if self.name.is_empty() {
            return self.fields.exact("metadata.name").map(Text::from);
        }
        Some(self.name.clone())
    }

    pub fn matches(&self, object: &StoredObject) -> bool {
        let tree = &object.tree;
        let meta = tree.get("metadata").unwrap_or(&Tree::Null);
        let here = |want: &Text, key: &str| want.is_empty() || meta.str_at(&[key]) == want.as_str();
        here(&self.namespace, "namespace")
            && here(&self.name, "name")
            && self.labels.matches(meta.get("labels"))
            && self.fields.matches(|path| self.field(tree, path))
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        match path {
            "metadata.name" => tree.str_at(&["metadata", "name"]).to_owned(),
            "metadata.namespace" => tree.str_at(&["metadata", "namespace"]).to_owned(),
            _ => self.place.resource.strategy.field(tree, path),
        }
    }
}

fn known_field(place: &VersionedResource, path: &str) -> Result<(), Status> {
    let resource = &place.resource;
    let custom = &resource.versions[place.version].selectable_fields;
    let special = resource.strategy.selectable_fields();
    let known = matches!(path, "metadata.name" | "metadata.namespace")
        || special.contains(&path)
        || custom.iter().any(|field| field.trim_start_matches('.') == path);
    if known {
        return Ok(());
    }
    // kube-apiserver has two messages: for kinds with selectable fields of their own, and for others.
    if !special.is_empty() || !custom.is_empty() {
        return Err(Status::bad_request(format!("field label not supported: {path}")));
    }
    let only = "\"metadata.name\", \"metadata.namespace\"";
    Err(Status::bad_request(format!("\"{path}\" is not a known field selector: only {only}")))
}
