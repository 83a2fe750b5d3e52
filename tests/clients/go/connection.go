// Where clients connect to, and as whom.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type connection struct {
	Bootstrap   string `json:"bootstrap"`
	Protocol    string `json:"protocol"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	tls         *tls.Config
}

// connect has what is made from now on connect so.
func connect(c connection) error {
	if strings.HasSuffix(c.Protocol, "SSL") {
		if err := c.readFiles(); err != nil {
			return err
		}
	}
	connected = c
	client, err := kgo.NewClient(common()...)
	if err != nil {
		return err
	}
	if admin != nil {
		admin.Close()
	}
	admin = kadm.NewClient(client)
	return nil
}

func (c *connection) readFiles() error {
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return err
	}
	c.tls = &tls.Config{RootCAs: x509.NewCertPool()}
	c.tls.RootCAs.AppendCertsFromPEM(pem)
	if c.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.Certificate, c.Certificate)
		if err != nil {
			return err
		}
		c.tls.Certificates = []tls.Certificate{pair}
	}
	return nil
}

func (c *connection) options() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(c.Bootstrap, ",")...)}
	if c.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(c.tls))
	}
	switch c.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		user := c.User
		opts = append(opts, kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			return oauth.Auth{Token: unsecuredToken(user)}, nil
		})))
	}
	return opts
}

// unsecuredToken is a JWT without signature, valid for an hour.
func unsecuredToken(user string) string {
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, now, now+3600)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}
