package longhaul

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	longhaulv1 "longhaul.dev/clients/go/longhaul/v1"
)

// A server answers what a test says.
type server struct {
	longhaulv1.UnimplementedJobServiceServer
	get     func(context.Context, *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error)
	submit  func(*longhaulv1.SubmitJobRequest) (*longhaulv1.SubmitJobResponse, error)
	control func(*longhaulv1.ControlRequest) (*longhaulv1.ControlResponse, error)
	all     func(*longhaulv1.ControlJobsRequest) (*longhaulv1.ControlJobsResponse, error)
	list    func(*longhaulv1.ListJobsRequest) (*longhaulv1.ListJobsResponse, error)
	watch   func(*longhaulv1.WatchJobRequest, grpc.ServerStreamingServer[longhaulv1.WatchJobResponse]) error
}

func (s *server) GetJob(ctx context.Context, request *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
	return s.get(ctx, request)
}

func (s *server) SubmitJob(_ context.Context, request *longhaulv1.SubmitJobRequest) (*longhaulv1.SubmitJobResponse, error) {
	return s.submit(request)
}

func (s *server) Control(_ context.Context, request *longhaulv1.ControlRequest) (*longhaulv1.ControlResponse, error) {
	return s.control(request)
}

func (s *server) ControlJobs(_ context.Context, request *longhaulv1.ControlJobsRequest) (*longhaulv1.ControlJobsResponse, error) {
	return s.all(request)
}

func (s *server) ListJobs(_ context.Context, request *longhaulv1.ListJobsRequest) (*longhaulv1.ListJobsResponse, error) {
	return s.list(request)
}

func (s *server) WatchJob(request *longhaulv1.WatchJobRequest, stream grpc.ServerStreamingServer[longhaulv1.WatchJobResponse]) error {
	return s.watch(request, stream)
}

// against runs a test with a client of this server, in a world of its own whose time passes only while all wait.
func (s *server) against(t *testing.T, test func(*testing.T, *Client), options ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		serving := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 30 * time.Second}))
		longhaulv1.RegisterJobServiceServer(serving, s)
		go serving.Serve(listener)
		defer serving.Stop()
		dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
		client, err := Connect(append([]Option{WithAddress("127.0.0.1:1"), WithDialOptions(dialer)}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		test(t, client)
	})
}

func TestAddresses(t *testing.T) {
	t.Setenv("LONGHAUL_CA_FILE", "")
	for _, test := range []struct{ address, target, protocol string }{
		{"localhost:50051", "dns:///localhost:50051", "insecure"},
		{"http://10.0.0.1:50051/", "dns:///10.0.0.1:50051", "insecure"},
		{"https://queue.example.com:8443", "dns:///queue.example.com:8443", "tls"},
		{"https://queue.example.com", "dns:///queue.example.com:443", "tls"},
		{"http://queue.example.com", "dns:///queue.example.com:80", "insecure"},
		{"[::1]:50051", "dns:///[::1]:50051", "insecure"},
		{address: ""}, {address: "localhost"}, {address: "http://"}, {address: "localhost:port"}, {address: "ftp://localhost:1"},
		{address: "unix:///tmp/socket"}, {address: "http://localhost:1/path"}, {address: "http://me@localhost:1"},
	} {
		s := settings{address: test.address}
		target, transport, err := s.resolve()
		switch {
		case test.target == "" && err == nil:
			t.Errorf("%q is taken for %s", test.address, target)
		case test.target != "" && err != nil:
			t.Errorf("%q: %v", test.address, err)
		case test.target != "" && (target != test.target || transport.Info().SecurityProtocol != test.protocol):
			t.Errorf("%q is taken for %s with %s", test.address, target, transport.Info().SecurityProtocol)
		}
	}
}

func TestTLSIsNotForgotten(t *testing.T) {
	if _, err := Connect(WithAddress("localhost:50051"), WithTLS(&tls.Config{})); err == nil {
		t.Error("certificates are given, and nothing is encrypted")
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	t.Setenv("LONGHAUL_CA_FILE", file)
	if _, err := Connect(WithAddress("https://localhost:50051")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("authorities that are not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(WithAddress("https://localhost:50051")); err == nil || !strings.Contains(err.Error(), "certificates") {
		t.Errorf("authorities that are none: %v", err)
	}
	if _, err := Connect(WithAddress("localhost:50051")); err != nil {
		t.Errorf("authorities where nothing is encrypted: %v", err)
	}
}

func TestTheKey(t *testing.T) {
	t.Setenv("LONGHAUL_API_KEY", "lh_environment")
	for _, test := range []struct {
		options []Option
		sent    string
	}{
		{nil, "Bearer lh_environment"},
		{[]Option{WithAPIKey("lh_own")}, "Bearer lh_own"},
		{[]Option{WithAPIKey("")}, ""},
	} {
		s := &server{get: func(ctx context.Context, _ *longhaulv1.GetJobRequest) (*longhaulv1.GetJobResponse, error) {
			if sent := strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), " "); sent != test.sent {
				t.Errorf("sent %q and not %q", sent, test.sent)
			}
			return &longhaulv1.GetJobResponse{}, nil
		}}
		s.against(t, func(t *testing.T, client *Client) {
			if _, err := client.Get(t.Context(), &longhaulv1.GetJobRequest{}); err != nil {
				t.Error(err)
			}
		}, test.options...)
	}
}
