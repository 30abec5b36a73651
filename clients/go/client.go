// Package longhaul is a client of Longhaul, a durable queue for long AI jobs.
//
// [Connect] makes a [Client]. Its methods take and answer the messages of the package longhaulv1, which is generated
// from the proto and whose comments say what each field means. A call that fails answers an [*Error].
//
// Every call with one answer, also through [Client.Stub], ends after 30 seconds unless its context has a deadline, and
// is tried up to five times while the server is unavailable or overloaded. Amounts of money are texts that hold exact
// decimals: parse them as decimals, never as floats.
package longhaul

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

// Version is the version of this module.
const Version = "0.1.0"

// A Client calls one server. It may be used by several goroutines at once.
type Client struct {
	connection *grpc.ClientConn
	stub       longhaulv1.JobServiceClient
	patience   time.Duration
}

// An Option says how to connect.
type Option func(*settings)

type settings struct {
	address, apiKey       string
	tls                   *tls.Config
	callTimeout, patience time.Duration
	dialOptions           []grpc.DialOption
}

// WithAddress names the server: host:port or http://host:port, or https://host:port to speak TLS. Without it, it is
// what LONGHAUL_SERVER says, else http://127.0.0.1:50051.
func WithAddress(address string) Option { return func(s *settings) { s.address = address } }

// WithAPIKey sets the key that is sent with each call, also without TLS; an empty one stands for none. Without it, it
// is what LONGHAUL_API_KEY says.
func WithAPIKey(key string) Option { return func(s *settings) { s.apiKey = key } }

// WithTLS says whom to trust and which certificate to show to a server at an https address. Without it, those in the
// PEM file that LONGHAUL_CA_FILE names are trusted, else the system's authorities.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithCallTimeout sets how long a call with one answer may take if its context has no deadline: 30 seconds, if nothing
// is said, and as long as it likes with 0. What GetJob is asked to wait comes on top.
func WithCallTimeout(limit time.Duration) Option { return func(s *settings) { s.callTimeout = limit } }

// WithPatience sets how long [Client.Watch] and [Client.Wait] go on without a word from the server: 5 minutes, if
// nothing is said.
func WithPatience(limit time.Duration) Option { return func(s *settings) { s.patience = limit } }

// WithDialOptions adds to what gRPC is told, after everything that this package says.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dialOptions = append(s.dialOptions, options...) }
}

// Connect makes a client. The server is reached by the first call, not here.
func Connect(options ...Option) (*Client, error) {
	s := settings{
		address:     cmp.Or(os.Getenv("LONGHAUL_SERVER"), "http://127.0.0.1:50051"),
		apiKey:      os.Getenv("LONGHAUL_API_KEY"),
		callTimeout: 30 * time.Second,
		patience:    5 * time.Minute,
	}
	for _, option := range options {
		option(&s)
	}
	target, transport, err := s.resolve()
	if err != nil {
		return nil, fmt.Errorf("longhaul: %w", err)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("longhaul-go/" + Version),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16 << 20)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
		// Calls fail at once while the connection pauses between two tries, so its pauses are short.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 10 * time.Second,
		}),
		grpc.WithChainUnaryInterceptor(persist(s.callTimeout)),
	}
	if s.apiKey != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer(s.apiKey)))
	}
	connection, err := grpc.NewClient(target, append(dial, s.dialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("longhaul: %w", err)
	}
	return &Client{connection, longhaulv1.NewJobServiceClient(connection), s.patience}, nil
}

// Stub answers the generated client, for what has no method here. Its calls with one answer have the same key, ids,
// deadlines, retries and errors.
func (c *Client) Stub() longhaulv1.JobServiceClient { return c.stub }

// Close ends the connection and every call that is under way.
func (c *Client) Close() error { return c.connection.Close() }

// resolve answers where the server is and how it is spoken to.
func (s *settings) resolve() (target string, transport credentials.TransportCredentials, err error) {
	address := s.address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	ports := map[string]string{"http": "80", "https": "443"}
	isBare := err == nil && address != s.address && u.Port() == ""
	if err != nil || isBare || ports[u.Scheme] == "" || u.Hostname() == "" || u.User != nil || strings.Trim(u.RequestURI(), "/") != "" {
		return "", nil, fmt.Errorf("not host:port, http://host:port or https://host:port: %q", s.address)
	}
	switch caFile := os.Getenv("LONGHAUL_CA_FILE"); {
	case u.Scheme == "http" && s.tls != nil:
		err = fmt.Errorf("TLS is spoken at https://host:port, not at %q", s.address)
	case u.Scheme == "http":
		transport = insecure.NewCredentials()
	case s.tls != nil || caFile == "":
		transport = credentials.NewTLS(s.tls)
	default:
		transport, err = credentials.NewClientTLSFromFile(caFile, "")
	}
	return "dns:///" + net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[u.Scheme])), transport, err
}

// bearer is an API key.
type bearer string

func (key bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(key)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }
