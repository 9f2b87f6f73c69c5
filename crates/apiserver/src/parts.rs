//! Stand-ins for parts of `muster_schema` that are still being made; each goes away when the real one is there.
#![allow(missing_docs, clippy::unnecessary_wraps, clippy::needless_pass_by_value)]



pub mod apply {
    use std::sync::Arc;

    use muster_schema::node::View;
    use muster_schema::object::{Managed, Object};
    use muster_tree::{Text, Tree};
    pub struct Writer {
        pub manager: Text,
        pub api_version: Text,
        pub subresource: Text,
        pub time: Text,
    }
    #[derive(Debug)]
    pub struct Conflict;
    pub fn apply(
        _: View<'_>,
        live: &Object,
        applied: &Tree,
        _: &Writer,
        _force: bool,
        _ignored: &Tree,
    ) -> Result<Object, Vec<Conflict>> {
        Ok(Object { tree: live.tree.merge(applied), ..live.clone() })
    }
    pub fn update(_: View<'_>, live: Option<&Object>, _: &Tree, _: &Writer, _: &Tree) -> Arc<[Managed]> {
        live.map_or_else(|| Arc::from([]), |l| l.managed.clone())
    }
}
