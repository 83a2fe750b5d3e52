package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func (c connection) apply(config *sarama.Config) error {
	if strings.HasSuffix(c.Protocol, "SSL") {
		files, err := c.files()
		if err != nil {
			return err
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, files
	}
	if c.Mechanism == "" {
		return nil
	}
	sasl := &config.Net.SASL
	sasl.Enable, sasl.Version, sasl.Mechanism = true, c.Handshake, sarama.SASLMechanism(c.Mechanism)
	sasl.User, sasl.Password = c.User, c.Password
	config.ApiVersionsRequest = c.Handshake > 0 // what sarama insists on
	switch c.Mechanism {
	case "SCRAM-SHA-256":
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: scram.SHA256} }
	case "SCRAM-SHA-512":
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: scram.SHA512} }
	case "OAUTHBEARER":
		sasl.TokenProvider = c
	}
	return nil
}

func (c connection) files() (*tls.Config, error) {
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	files := &tls.Config{RootCAs: x509.NewCertPool()}
	files.RootCAs.AppendCertsFromPEM(pem)
	if c.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.Certificate, c.Certificate)
		if err != nil {
			return nil, err
		}
		files.Certificates = []tls.Certificate{pair}
	}
	return files, nil
}

// Token is a JWT without signature, valid for an hour.
func (c connection) Token() (*sarama.AccessToken, error) {
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, c.User, now, now+3600)
	encode := base64.RawURLEncoding.EncodeToString
	return &sarama.AccessToken{Token: encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."}, nil
}

// exchange is what sarama leaves to its users: SCRAM by xdg-go/scram.
type exchange struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (e *exchange) Begin(user, password, authzID string) error {
	client, err := e.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	e.ClientConversation = client.NewConversation()
	return nil
}
