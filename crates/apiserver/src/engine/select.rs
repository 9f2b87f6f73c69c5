//! Which objects of a resource a request selects: by place, labels and fields.

use muster_schema::selector::{Fields, Labels};
use muster_store::Object;
use muster_tree::{Text, Tree};

use super::Place;
use crate::request::{ListOptions, Target};
use crate::status::Status;

/// A parsed selection.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    place: Place,
    namespace: Text,
    name: Text,
    labels: Labels,
    fields: Fields,
}

impl Selection {
    /// Reads what the client asked for.
    pub fn parse(place: &Place, target: &Target, options: &ListOptions) -> Result<Selection, Status> {
        let labels = Labels::parse(&options.label_selector).map_err(Status::bad_request)?;
        let fields = Fields::parse(&options.field_selector).map_err(Status::bad_request)?;
        fields.terms().iter().try_for_each(|term| known_field(place, &term.field))?;
        let (namespace, name) = (target.namespace.clone(), target.name.clone());
        Ok(Selection { place: place.clone(), namespace, name, labels, fields })
    }

    /// Whether labels or fields narrow the selection.
    pub fn is_filtered(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The one namespace that can match, if there is only one.
    pub fn namespace(&self) -> Option<Text> {
        if !self.place.resource.namespaced {
            return None;
        }
        if self.namespace.is_empty() {
            return self.fields.exact("metadata.namespace").map(Text::from);
        }
        Some(self.namespace.clone())
    }

    /// The one name that can match, if there is only one.
    pub fn name(&self) -> Option<Text> {
        if self.name.is_empty() {
            return self.fields.exact("metadata.name").map(Text::from);
        }
        Some(self.name.clone())
    }

    /// Whether an object is selected.
    pub fn matches(&self, object: &Object) -> bool {
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

fn known_field(place: &Place, path: &str) -> Result<(), Status> {
    let resource = &place.resource;
    let custom = &resource.versions[place.version].selectable_fields;
    let special = resource.strategy.selectable_fields();
    let known = matches!(path, "metadata.name" | "metadata.namespace")
        || special.contains(&path)
        || custom.iter().any(|field| field.trim_start_matches('.') == path);
    if known {
        return Ok(());
    }
    // Kinds with fields of their own speak of labels, the others list what there is.
    if !special.is_empty() || !custom.is_empty() {
        return Err(Status::bad_request(format!("field label not supported: {path}")));
    }
    let only = "\"metadata.name\", \"metadata.namespace\"";
    Err(Status::bad_request(format!("\"{path}\" is not a known field selector: only {only}")))
}
