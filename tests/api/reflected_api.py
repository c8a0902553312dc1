"""Calls a gRPC server through descriptors from its reflection service. Imports no code of the project.

Needs python3-grpcio and python3-protobuf. Not thread-safe.
"""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# The needed part of grpc.reflection.v1alpha (github.com/grpc/grpc-proto): messages by field number.
_REFLECTION = "grpc.reflection.v1alpha"


def _reflection_messages():
    file = descriptor_pb2.FileDescriptorProto(name="reflection_subset.proto", package=_REFLECTION, syntax="proto3")
    string, raw, message = 9, 12, 11  # FieldDescriptorProto.Type

    def add(name, fields):
        descriptor = file.message_type.add(name=name)
        for number, (field, kind, repeated, type_name) in fields.items():
            descriptor.field.add(
                name=field, number=number, type=kind, label=3 if repeated else 1,
                type_name=f".{_REFLECTION}.{type_name}" if type_name else None)

    add("ServerReflectionRequest", {3: ("file_by_filename", string, False, None),
                                    4: ("file_containing_symbol", string, False, None),
                                    7: ("list_services", string, False, None)})
    add("FileDescriptorResponse", {1: ("file_descriptor_proto", raw, True, None)})
    add("ServiceResponse", {1: ("name", string, False, None)})
    add("ListServiceResponse", {1: ("service", message, True, "ServiceResponse")})
    add("ErrorResponse", {1: ("error_code", 5, False, None), 2: ("error_message", string, False, None)})
    add("ServerReflectionResponse", {4: ("file_descriptor_response", message, False, "FileDescriptorResponse"),
                                     6: ("list_services_response", message, False, "ListServiceResponse"),
                                     7: ("error_response", message, False, "ErrorResponse")})
    # Oneof fields are sent even with default values, because the field itself selects the request.
    for field in file.message_type[0].field:
        field.oneof_index = 0
    file.message_type[0].oneof_decl.add(name="message_request")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return tuple(factory.GetPrototype(pool.FindMessageTypeByName(f"{_REFLECTION}.{name}"))
                 for name in ("ServerReflectionRequest", "ServerReflectionResponse"))


class Api:
    """The services of a server. `api.call("StudyService", "GetStudy", name="studies/1")` returns a message."""

    def __init__(self, target, package="autocfg.v1"):
        self.channel = grpc.insecure_channel(target)
        grpc.channel_ready_future(self.channel).result(timeout=30)
        self._package = package
        self._request, self._response = _reflection_messages()
        self._pool = descriptor_pool.DescriptorPool()
        self._factory = message_factory.MessageFactory(self._pool)
        self._loaded = set()
        for service in self.services():
            if service.startswith(package + "."):
                self._load(file_containing_symbol=service)

    def close(self):
        self.channel.close()

    def _reflect(self, **question):
        stream = self.channel.stream_stream(f"/{_REFLECTION}.ServerReflection/ServerReflectionInfo",
                                            request_serializer=self._request.SerializeToString,
                                            response_deserializer=self._response.FromString)
        answers = list(stream(iter([self._request(**question)]), timeout=20))
        assert len(answers) == 1, answers
        assert not answers[0].HasField("error_response"), answers[0]
        return answers[0]

    def services(self):
        return [service.name for service in self._reflect(list_services="").list_services_response.service]

    def _load(self, **question):
        for raw in self._reflect(**question).file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(raw)
            if file.name in self._loaded:
                continue
            self._loaded.add(file.name)
            for dependency in file.dependency:
                if dependency not in self._loaded:
                    self._load(file_by_filename=dependency)
            self._pool.Add(file)

    def message(self, name):
        """Returns the class of a message of the package."""
        return self._factory.GetPrototype(self._pool.FindMessageTypeByName(f"{self._package}.{name}"))

    def methods(self, service):
        return [m.name for m in self._pool.FindServiceByName(f"{self._package}.{service}").methods]

    def _method(self, service, method):
        found = self._pool.FindServiceByName(f"{self._package}.{service}").FindMethodByName(method)
        request, response = (self._factory.GetPrototype(d) for d in (found.input_type, found.output_type))
        return f"/{self._package}.{service}/{method}", request, response

    def call(self, service, method, timeout=30, request=None, metadata=None, **fields):
        return self.begin(service, method, timeout, request, metadata, **fields).result()

    def begin(self, service, method, timeout=30, request=None, metadata=None, **fields):
        """Returns the future of a call."""
        path, request_type, response_type = self._method(service, method)
        unary = self.channel.unary_unary(path, request_serializer=request_type.SerializeToString,
                                         response_deserializer=response_type.FromString)
        return unary.future(request if request is not None else request_type(**fields), timeout=timeout, metadata=metadata)

    def stream(self, service, method, timeout=600, **fields):
        """Returns the responses of a server stream; its `cancel()` ends the stream."""
        path, request_type, response_type = self._method(service, method)
        unary = self.channel.unary_stream(path, request_serializer=request_type.SerializeToString,
                                          response_deserializer=response_type.FromString)
        return unary(request_type(**fields), timeout=timeout)

    def exchange(self, service, method, requests, timeout=60):
        """Returns the responses of a bidirectional stream to a list of requests (dicts)."""
        path, request_type, response_type = self._method(service, method)
        both = self.channel.stream_stream(path, request_serializer=request_type.SerializeToString,
                                          response_deserializer=response_type.FromString)
        return list(both((request_type(**fields) for fields in requests), timeout=timeout))

    def health(self, service):
        """Returns the status number: 1 is SERVING (grpc.health.v1)."""
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=lambda raw: raw,
                                         response_deserializer=lambda raw: raw)
        name = service.encode()
        raw = check(bytes([0x0A, len(name)]) + name if name else b"", timeout=20)
        return raw[1] if len(raw) == 2 and raw[0] == 0x08 else 0
