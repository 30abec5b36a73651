//! gRPC by hand, frame by frame: for clients that trickle, stop reading, or hear what the server says of a deadline.
//!
//! A client of the usual kind ends a call at its deadline by itself, and reads whatever comes.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::TcpStream;
use tonic::Status;

use super::PATIENCE;

/// One HTTP/2 connection.
#[derive(Clone)]
pub struct Raw {
    requests: SendRequest<Bytes>,
}

impl Raw {
    /// Connects, and takes so many bytes of each answer until it is told to take more.
    pub async fn connect(addr: &str, window: u32) -> Self {
        let socket = TcpStream::connect(addr).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(1 << 20);
        let (requests, connection) = builder.handshake(socket).await.unwrap();
        tokio::spawn(connection);
        Self { requests }
    }

    /// Begins a call, whose message has yet to be sent.
    pub async fn begin(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::post(format!("http://longhaul{path}"));
        request = request.header("content-type", "application/grpc").header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut requests = self.requests.clone().ready().await.unwrap();
        requests.send_request(request.body(()).unwrap(), false).unwrap()
    }

    /// Calls a method of the jobs with a whole message; answers with the headers and what follows them.
    pub async fn call(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        message: &impl Message,
    ) -> (HeaderMap, RecvStream) {
        let path = format!("/longhaul.v1.JobService/{method}");
        let (answer, mut body) = self.begin(&path, headers).await;
        body.send_data(framed(message), true).unwrap();
        Self::answered(answer).await
    }

    /// The answer to a call, which has to begin.
    pub async fn answered(answer: ResponseFuture) -> (HeaderMap, RecvStream) {
        let answered = tokio::time::timeout(PATIENCE, answer).await.expect("an answer begins");
        let (parts, body) = answered.unwrap().into_parts();
        (parts.headers, body)
    }

    /// Reads an answer to its end and gives back all that was held; answers with the status at its end.
    pub async fn read_to_end(headers: &HeaderMap, mut body: RecvStream) -> Status {
        if let Some(status) = Status::from_header_map(headers) {
            return status;
        }
        let read = async {
            while let Some(data) = body.data().await {
                let length = data?.len();
                body.flow_control().release_capacity(length)?;
            }
            body.trailers().await
        };
        let read = tokio::time::timeout(PATIENCE, read).await.expect("an answer ends");
        let trailers = read.unwrap().expect("an answer ends with a status");
        Status::from_header_map(&trailers).expect("an answer ends with a status")
    }
}

/// A message as gRPC sends it: not compressed, its length, itself.
pub fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut frame).unwrap();
    frame.freeze()
}
