//! The door to the pods of this process: requests for logs and commands go straight to the kubelet.

use std::sync::Arc;

use hyper::body::Incoming;
use muster_apiserver::http::nodes::{NodeAnswer, NodeDoor};
use muster_kubelet::Kubelet;
use muster_tree::Text;

/// The one node of this process.
pub struct Door {
    /// Its name.
    pub node: Text,
    /// Answers for it.
    pub kubelet: Arc<Kubelet>,
}

impl NodeDoor for Door {
    fn has(&self, node: &str) -> bool {
        node == self.node.as_str()
    }

    fn serve(&self, _node: &str, request: hyper::Request<Incoming>) -> NodeAnswer {
        let kubelet = self.kubelet.clone();
        Box::pin(async move { kubelet.serve(request).await })
    }
}
