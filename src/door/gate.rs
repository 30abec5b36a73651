//! The gate: the layer before both faces that lets in who may come in.
//!
//! In goes any request; it goes on with its `Authority` among its extensions, or is refused in the words of its face.
//! It stands inside what measures, outside what limits each caller and outside everything that reads a body.

use std::convert::Infallible;
use std::future::Ready;
use std::task::{Context, Poll};

use futures::future::Either;
use http::header::HeaderName;
use http::{Request, Response};
use tower::{Layer, Service};

use super::credential::Shown;
use super::keyring::Keyring;
use super::line::Leash;
use super::stay::Stay;
use super::table::Need;
use super::{PeerName, Refusal, Shed};

/// What the gate has to know of a face.
pub trait Face: Clone + Send + Sync + 'static {
    /// The body of its answers.
    type Body;

    /// What a request needs.
    fn need<B>(&self, request: &Request<B>) -> Need;

    /// Whether a request is a watch, which is counted apart.
    fn is_watch<B>(&self, _request: &Request<B>) -> bool {
        false
    }

    /// The refusal, in the words of the face.
    fn refuse(&self, refusal: &Refusal) -> Response<Self::Body>;

    /// That there is no room, in the words of the face.
    fn shed(&self, shed: Shed) -> Response<Self::Body>;
}

/// Puts a gate before a face.
#[derive(Clone)]
pub struct GateLayer<F> {
    keyring: Keyring,
    own_header: Option<HeaderName>,
    face: F,
}

impl<F: Face> GateLayer<F> {
    /// A gate with these keys; they may also be shown in a header of the server's own choice.
    pub fn new(keyring: Keyring, own_header: Option<HeaderName>, face: F) -> Self {
        Self { keyring, own_header, face }
    }
}

impl<S, F: Face> Layer<S> for GateLayer<F> {
    type Service = Gate<S, F>;

    fn layer(&self, inner: S) -> Gate<S, F> {
        Gate { layer: self.clone(), inner }
    }
}

/// A face behind its gate.
#[derive(Clone)]
pub struct Gate<S, F> {
    layer: GateLayer<F>,
    inner: S,
}

impl<S, F, B> Service<Request<B>> for Gate<S, F>
where
    F: Face,
    S: Service<Request<B>, Response = Response<F::Body>, Error = Infallible>,
{
    type Response = Response<F::Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<F::Body>, Infallible>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.layer.admit(&mut request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(refusal) => Either::Right(std::future::ready(Ok(self.layer.face.refuse(&refusal)))),
        }
    }
}

impl<F: Face> GateLayer<F> {
    fn admit<B>(&self, request: &mut Request<B>) -> Result<(), Refusal> {
        let scopes = match self.face.need(request) {
            Need::Nothing => return Ok(()),
            Need::AnyOf(scopes) => scopes,
        };
        let shown = Shown::by(request.headers(), self.own_header.as_ref());
        let peer = request.extensions().get::<PeerName>();
        let authority = self.keyring.judge(&shown, peer)?;
        if !scopes.iter().any(|scope| authority.allows(*scope)) {
            return Err(Refusal::ScopeRequired(scopes.to_vec()));
        }
        if let Some(leash) = request.extensions().get::<Leash>() {
            leash.set_let_in();
        }
        if self.face.is_watch(request) {
            // It goes on long after this moment.
            request.extensions_mut().insert(Stay::new(&self.keyring, &authority));
        }
        request.extensions_mut().insert(authority);
        Ok(())
    }
}
