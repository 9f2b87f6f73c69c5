//! Groups that are told behind another server, which hands on what it is asked about them. Nothing else is served here.
//!
//! # Deliberately absent
//!
//! Who asks, and whether he may: whoever stands before this finds that out between [`Handed::wish`] and
//! [`Handed::answer`].

use std::sync::Arc;

use http::Method;
use hyper::body::Incoming;
use muster_api::ports::Clock;

use super::accept::{Offer, Shape};
use super::answer::{self, Reply};
use super::context::Request;
use super::discover::{not_found, plain};
use super::info::{self, Info};
use super::limits::{Bounds, Limits};
use super::told::{Asked, Hall, Teller, found};
use crate::discovery::{self, Root};
use crate::status::Status;

/// What a request wants.
pub enum Wish {
    /// A document of discovery, for whoever is known.
    Document(Reply),
    /// An answer.
    Answer(Asked),
}

/// Answers what is handed on.
pub struct Handed {
    teller: Arc<dyn Teller>,
    limits: Limits,
    bounds: Bounds,
    clock: Arc<dyn Clock>,
}

impl Handed {
    /// Has this one tell, within these bounds.
    pub fn new(teller: Arc<dyn Teller>, bounds: Bounds, clock: Arc<dyn Clock>) -> Handed {
        Handed { teller, limits: Limits::new(&bounds), bounds, clock }
    }

    /// What is wanted at this path.
    ///
    /// # Errors
    /// 400, 404, 405, 406.
    pub fn wish(&self, request: &Request, path: &str) -> Result<Wish, Status> {
        let wrong = || Status::bad_request("the path of the request is not valid percent-encoded UTF-8");
        match info::parse(path).ok_or_else(wrong)? {
            Info::Path(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.document(request, &words).map(Wish::Document)
            }
            Info::Resource { target, .. } => {
                let place = found(self.teller.as_ref(), &target).ok_or_else(Status::unknown_path)?;
                let asked = Asked::of(request, place, target)?;
                asked.check()?;
                Ok(Wish::Answer(asked))
            }
        }
    }

    /// Answers.
    ///
    /// # Errors
    /// What the one who tells refuses; 406, 429, 504.
    pub async fn answer(&self, request: &Request, asked: Asked, body: Incoming) -> Result<Reply, Status> {
        let (teller, limits, bound) = (self.teller.as_ref(), &self.limits, self.bounds.deadline);
        Hall { teller, limits, bound, now: self.clock.now() }.tell(request, asked, body).await
    }

    fn document(&self, request: &Request, path: &[&str]) -> Result<Reply, Status> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(Status::method_not_allowed());
        }
        let all = self.teller.resources();
        let document = match path {
            ["apis"] => return self.root(request),
            ["apis", group] => discovery::group(all, group),
            ["apis", group, version] => discovery::resource_list(all, group, version),
            _ => None,
        };
        document.map_or_else(|| Ok(not_found()), |it| plain(request, &it))
    }

    fn root(&self, request: &Request) -> Result<Reply, Status> {
        let agreed = request.negotiate(Offer::Discovery)?;
        let all = self.teller.resources();
        let Shape::Discovery(form) = agreed.shape else {
            return Ok(answer::tree(200, &discovery::group_list(all), request.style(agreed)));
        };
        let bytes = discovery::aggregated(all, Root::Named, form).to_json_bytes();
        Ok(answer::bytes(200, form.media_type(), bytes, false))
    }
}
