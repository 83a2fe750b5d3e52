package brokersim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sort"
	"strings"
	"time"
)

// API has every operation of the control server on one cluster, with typed parameters and answers. Errors are of type *[Error].
type API struct {
	server  *server
	cluster string // /clusters/ID
}

// Error is a request to the control server that was refused, or a wait whose deadline passed.
type Error struct {
	Status     int    // of HTTP
	Kind       string // UsageError, NotThere, WaitTimeout, NeverHit, KafkaError, ...
	Text       string `json:"error"`
	Nearest    string // the valid name that is most like the given one
	History    string // of a wait: what happened instead
	KafkaError string `json:"kafka_error"` // Kafka's name of the error
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Kind, e.Status, e.Text) }

// Ptr returns a pointer to a value, for parameters that may be zero.
func Ptr[T any](value T) *T { return &value }

// Params of an operation by their names: the query of a GET or DELETE, the body of a POST or PUT.
type Params map[string]any

type parameters = Params

// set sets a parameter unless it is absent: nil or empty.
func (p Params) set(name string, value any) {
	of := reflect.ValueOf(value)
	switch {
	case of.IsZero():
	case of.Kind() == reflect.Pointer:
		p[name] = of.Elem().Interface()
	default:
		p[name] = value
	}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// escaped is a part of a path.
func escaped(value any) string { return url.PathEscape(fmt.Sprint(value)) }

// lines is where an answer of one JSON value a line goes.
func lines[T any](to *[]T) any {
	return lineReader(func(line []byte) error {
		var one T
		err := json.Unmarshal(line, &one)
		*to = append(*to, one)
		return err
	})
}

type lineReader func(line []byte) error

// call makes a request; path is below /v1. answer: nil, a pointer to what JSON is read into, *string for the text, or lines.
func (a *API) call(method, path string, params Params, answer any) error {
	target := a.server.url + "/v1" + path
	var body io.Reader
	if method == "GET" || method == "DELETE" {
		if query := form(params); query != "" {
			target += "?" + query
		}
	} else {
		written, err := json.Marshal(plain(params))
		if err != nil {
			return err
		}
		body = bytes.NewReader(written)
	}
	request, err := http.NewRequest(method, target, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if a.server.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.server.token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return read(response, answer)
}

var client = &http.Client{Timeout: 11 * time.Minute} // longer than the server lets anything wait

func read(response *http.Response, answer any) error {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		failed := &Error{Status: response.StatusCode}
		if json.Unmarshal(text, failed) != nil {
			failed.Text = string(text)
		}
		return failed
	}
	switch to := answer.(type) {
	case nil:
		return nil
	case *string:
		*to = string(text)
		return nil
	case lineReader:
		scanner := bufio.NewScanner(bytes.NewReader(text))
		scanner.Buffer(nil, len(text)+1)
		for scanner.Scan() {
			if err := to(scanner.Bytes()); err != nil {
				return err
			}
		}
		return scanner.Err()
	default:
		return json.Unmarshal(text, answer)
	}
}

// plain has durations as text.
func plain(params Params) Params {
	found := Params{}
	for name, value := range params {
		if duration, is := value.(time.Duration); is {
			value = milliseconds(duration)
		}
		found[name] = value
	}
	return found
}

// form is a query: lists are a,b, maps a=1,b=2.
func form(params Params) string {
	values := url.Values{}
	for name, value := range plain(params) {
		of := reflect.ValueOf(value)
		var parts []string
		switch of.Kind() {
		case reflect.Slice:
			for i := 0; i < of.Len(); i++ {
				parts = append(parts, fmt.Sprint(of.Index(i)))
			}
		case reflect.Map:
			for _, key := range of.MapKeys() {
				parts = append(parts, fmt.Sprintf("%v=%v", key, of.MapIndex(key)))
			}
			sort.Strings(parts)
		default:
			parts = []string{fmt.Sprint(value)}
		}
		values.Set(name, strings.Join(parts, ","))
	}
	return values.Encode()
}
