// An API server for custom resources alone, of Kubernetes' own parts, with its etcd in the same process.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
)

func main() {
	directory := flag.String("directory", "", "where data and certificates are kept")
	port := flag.Int("port", 0, "of loopback, where it listens")
	etcdPort := flag.Int("etcd-port", 0, "of loopback, for its own use")
	flag.Parse()
	if err := serve(*directory, *port, *etcdPort); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(directory string, port, etcdPort int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, err := startEtcd(filepath.Join(directory, "etcd"), etcdPort)
	if err != nil {
		return err
	}
	defer store.Close()

	wanted := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	recommended := wanted.RecommendedOptions
	recommended.Etcd.StorageConfig.Transport.ServerList = []string{store.Config().ListenClientUrls[0].String()}
	recommended.SecureServing.BindPort = port
	recommended.SecureServing.ServerCert.CertDirectory = filepath.Join(directory, "certificates")
	// Nobody but the test reaches it; there is no other API server to ask.
	recommended.Authentication, recommended.Authorization = nil, nil
	recommended.CoreAPI, recommended.Admission = nil, nil
	recommended.Features.EnablePriorityAndFairness = false
	if err := wanted.Complete(); err != nil {
		return err
	}
	if err := recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, nil); err != nil {
		return err
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	if err := wanted.ServerRunOptions.ApplyTo(&generic.Config); err != nil {
		return err
	}
	if err := recommended.ApplyTo(generic); err != nil {
		return err
	}
	if err := wanted.APIEnablement.ApplyTo(&generic.Config, apiserver.DefaultAPIResourceConfigSource(), apiserver.Scheme); err != nil {
		return err
	}
	definitions := utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(openapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config := &apiserver.Config{
		GenericConfig: generic,
		ExtraConfig: apiserver.ExtraConfig{
			CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(*recommended.Etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker),
		},
	}
	completed := config.Complete()
	// In a cluster the aggregator before it says what there is.
	completed.GenericConfig.EnableDiscovery = true
	server, err := completed.New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	return server.GenericAPIServer.PrepareRun().RunWithContext(ctx)
}

func startEtcd(directory string, port int) (*embed.Etcd, error) {
	address := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	// Nobody is its peer.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = directory
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{address}, []url.URL{address}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	store, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	<-store.Server.ReadyNotify()
	return store, nil
}
