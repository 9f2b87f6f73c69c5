//! Serves kubelet requests (logs, exec, attach, port-forward) for the local node in process, without a connection.

use std::sync::Arc;

use hyper::body::Incoming;
use muster_apiserver::http::kubelet_location::{KubeletFuture, KubeletHandler};
use muster_kubelet::KubeletServer;
use muster_tree::Text;

/// The kubelet of the local node.
pub struct InProcessKubelet {
    pub node: Text,
    pub kubelet: Arc<KubeletServer>,
}

impl KubeletHandler for InProcessKubelet {
    fn has_node(&self, node: &str) -> bool {
        node == self.node.as_str()
    }

    fn serve(&self, _node: &str, request: hyper::Request<Incoming>) -> KubeletFuture {
        let kubelet = self.kubelet.clone();
        Box::pin(async move { kubelet.serve(request).await })
    }
}
